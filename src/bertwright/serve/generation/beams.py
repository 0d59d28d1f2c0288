"""Texts that beam search finds, in steps: what `Flight` takes in place of `RowsInFlight`.

Prompts that begin together and with the same settings are searched together; a step gives each open
beam of each search a token.
"""

from __future__ import annotations

from collections.abc import Sequence

from bertwright.config.generation import GenerationConfig
from bertwright.inference.encode import ModelRunner
from bertwright.inference.translation.translate import begin_targets
from bertwright.nn.search import BeamSteps, Row
from bertwright.serve.generation.flight import Text


class Searches:
    """Beam searches for translations side by side."""

    def __init__(self, runner: ModelRunner) -> None:
        self._runner = runner
        self._going: list[tuple[list[Text], BeamSteps]] = []
        self.rows: list[Row] = []
        """Texts that are searched for, one of each prompt."""

    def __len__(self) -> int:
        return sum(row.reason is None for row in self.rows)

    def add(self, source: Sequence[list[int]], rows: Sequence[Sequence[Row]]) -> None:
        """Begin to search for the texts of prompts."""
        prompts: dict[GenerationConfig, list[int]] = {}
        for number in sorted(range(len(source)), key=lambda number: -len(source[number])):
            prompts.setdefault(rows[number][0].config, []).append(number)
        begun: list[tuple[list[Text], BeamSteps]] = []
        for config, numbers in prompts.items():
            texts = [row for n in numbers for row in rows[n] if isinstance(row, Text)]
            limits = [text.limit for text in texts]
            ids, settings = [source[n] for n in numbers], (config.beam, config.length_penalty)
            steps = begin_targets(self._runner, ids, limits, *settings)
            next(steps)  # reads the prompts
            begun.append((texts, steps))
        self._going += begun
        self.rows += [text for texts, _ in begun for text in texts]

    def step(self) -> list[Row]:
        """A step of each search; gives the texts that had not ended before it."""
        self.rows = [row for row in self.rows if row.reason is None]
        for search in list(self._going):
            texts, steps = search
            done = next(steps, None)
            for number, (best, *_) in done or ():
                text = texts[number]
                if text.reason is None:  # else its client has left
                    text.ids, text.score, text.reason = best.ids, best.score, best.reason
            if all(text.reason for text in texts):
                self._going.remove(search)
        return self.rows
