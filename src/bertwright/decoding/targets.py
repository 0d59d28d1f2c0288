"""Beam search for the targets of sources: translations of texts, and trees of sentences.

Sources are read without padding in the order of their length. The decoder keeps the results of the
tokens read so far (a KV cache, an LSTM's state), and a source leaves the batch when its search
ends.

Scores are `log p(target) / ((5 + length) / 6)^a` (Wu et al. 2016, equation 14), where a is the
length penalty. A target has at most 50 tokens more than its source (Vaswani et al. 2017, section
6.1), a tree at most 300 more (section 6.3).

Letters: B sources, R rows (beams), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertwright.config.generation import TranslationConfig
from bertwright.data.batch import make_inputs, token_batches
from bertwright.data.parallel.build import is_of_tree, writes_trees
from bertwright.decoding.search import BeamSteps, Hypothesis, beam_steps, finish
from bertwright.errors import DataError
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.translation import Translation
from bertwright.nn.products import lay_out
from bertwright.text.framing import ends_of
from bertwright.text.tokenizer.tokenizer import Tokenizer

LONGER, LONGER_TREE = 50, 300
"""The maximum number of tokens that a translation, or a tree, has more than its source."""


class TargetDecoder:
    """A decoder (`search.Generates`) of targets; a source is a list of ids, longest first."""

    def __init__(self, learner: Learner, head: Translation, begin: int) -> None:
        """Build the decoder of a learner's `translation` head.

        Args:
            head: the decoder and the output layer.
            begin: the id before the first token of a target.
        """
        self.encoder, self.head, self._begin = learner.encoder, head, begin
        self.device = learner.encoder.device
        lay_out(learner, head.weight)

    def begin(self, source: Sequence[Sequence[int]]) -> tuple[Tensor, Any]:
        """Encode B sources. Return the logits of the first token `[B, V]`, and the state of the
        decoder."""
        _, inputs = make_inputs(list(range(len(source))), source, None, self.device)
        state = self.head.decoder.begin(self.encoder(inputs))
        ids = torch.full((len(source),), self._begin, device=self.device)
        logits, state = self.advance(ids, state)
        require_finite(logits.amax(1), "logits")  # the maximum is NaN where there is one
        return logits, state

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        x, state = self.head.decoder.advance(ids, state)
        return self.head.logits(x), state


@dataclass(frozen=True)
class TargetSearch:
    """Searches the targets of framed sources by a learner with a `translation` head."""

    learner: Learner
    tokenizer: Tokenizer
    batch_tokens: int
    """The approximate number of source tokens that are read at once, counted for every beam."""
    longest: int | None
    """The most tokens of a source or a target; None: any number."""

    def search(
        self, sources: Sequence[list[int]], config: TranslationConfig, done: int = 0
    ) -> list[Hypothesis]:
        """Return the best target of each source. The target of a source without tokens is empty.

        Args:
            sources: the ids of each source, including those of begin and end.
            config: the number of beams, the length penalty and the maximum length.
            done: the number of sources before these, from which the numbers in errors count.
        """
        longest = self.longest
        for number, ids in enumerate(sources, done + 1):
            if longest is not None and len(ids) > longest:
                raise DataError(
                    f"text {number} has {len(ids):,} tokens; this model reads {longest:,} at once: "
                    "give it a sentence at a time"
                )
        best = [Hypothesis(0.0, [], "stop")] * len(sources)
        full = [number for number, ids in enumerate(sources) if len(ids) > 2]
        tokens = max(1, self.batch_tokens // config.beam)
        for batch in token_batches([len(sources[number]) for number in full], tokens):
            rows = [full[number] for number in batch]
            batch_sources = [sources[row] for row in rows]
            limits = [self.limit(len(ids), config.max_length) for ids in batch_sources]
            steps = self.begin(batch_sources, limits, config.beam, config.length_penalty)
            for row, (first, *_) in zip(rows, finish(steps), strict=True):
                best[row] = first
        return best

    def limit(self, length: int, most: int | None = None) -> int:
        """Return the maximum number of tokens of the target of a framed source, its end included.

        Args:
            length: the number of tokens of the framed source.
            most: the maximum that was requested; None: it depends on the length of the source.
        """
        more = LONGER_TREE if writes_trees(self.tokenizer) else LONGER
        most = most or length - 2 + more
        return most if self.longest is None else min(most, self.longest)

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        beam: int,
        length_penalty: float,
    ) -> BeamSteps:
        """Return the steps of a beam search. The targets of a parser consist of tree tokens only.

        Args:
            sources: the ids of framed sources, longest first.
            limits: the maximum number of tokens of each target.
            length_penalty: a.
        """
        head, tokenizer = self.learner.objectives["translation"], self.tokenizer
        ends = ends_of(tokenizer.special)
        assert isinstance(head, Translation)
        assert ends is not None  # or it could not be trained
        begin, end = ends
        never = {*tokenizer.special.values(), *tokenizer.ids_without_token} - {end}
        if writes_trees(tokenizer):
            never |= {n for token, n in tokenizer.vocab.items() if not is_of_tree(token)} - {end}
        return beam_steps(
            TargetDecoder(self.learner, head, begin),
            sources,
            {end},
            limits,
            beam=beam,
            norm=lambda length: ((5 + length) / 6) ** length_penalty,
            never=never,
        )
