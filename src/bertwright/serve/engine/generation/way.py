"""The ways in which a model generates: by which decoder, in rows or by beam search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bertwright.decoding.search import RowsInFlight
from bertwright.inference.encode import ModelRunner
from bertwright.serve.engine.generation.flight import Searches


@dataclass(frozen=True)
class Way:
    """A way in which a model generates. All texts of one way are generated together."""

    name: str
    make_rows: Callable[[ModelRunner], RowsInFlight | Searches]
    """Takes a model and returns the rows or searches that generate."""
    is_of_encoder: bool = True
    """Whether the encoder itself generates, without a decoder of its own."""

    def keeps_tokens(self, runner: ModelRunner) -> bool:
        """Return whether what the model keeps of a text grows with the text.

        An encoder that reads texts of any length keeps a state of constant size (for n-grams, the
        last tokens).
        """
        return not (self.is_of_encoder and runner.spec.max_length is None)
