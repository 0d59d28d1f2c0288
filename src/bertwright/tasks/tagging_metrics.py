"""Precision, recall and F1 of entities, as the Perl script `conlleval` of CoNLL-2000 counts them.

An entity is right if its type, its first and its last word are. Tags that break their scheme are
read as the script reads them (`tag_schemes.chunks`): "I-PER" after "O" or after another type begins
an entity, so IOB1 and IOB2 go by the same rules. The script has rules for "E" (ends an entity); one
is mended: an "E-X" before "B-X" ends there. It does not know "S" (an entity of one word), which is
as in seqeval. Well-formed IOB2 and IOBES give what seqeval's strict mode gives.

Letters: E sentences, W words of all of them, C types of entity or tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bertwright.arrays import Float64s
from bertwright.labelled.tag_schemes import chunks
from bertwright.tasks.classification_metrics import class_counts, f1_of, macro_f1_of
from bertwright.tasks.intervals import Statistic, of_sums, ratio


class EntityCounts:
    """Entities of each sentence: right, predicted, true.

    `gold` and `predicted` are the tags of E sentences, each as long in both.
    """

    def __init__(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
        pairs = [(set(chunks(a)), set(chunks(b))) for a, b in zip(gold, predicted, strict=True)]
        self.types = tuple(sorted({kind for pair in pairs for one in pair for *_, kind in one}))
        """C types of entity, in gold or predicted, in the order of the alphabet."""
        numbers = {kind: number for number, kind in enumerate(self.types)}
        self.by_type: Float64s = np.zeros((3, len(self.types)))
        """[3, C], for `per_class`."""
        rows = []
        for true, chosen in pairs:
            found = (true & chosen, chosen, true)
            rows.append([len(one) for one in found])
            for counts, one in zip(self.by_type, found, strict=True):
                for *_, kind in one:
                    counts[numbers[kind]] += 1
        words = [
            [sum(a == b for a, b in zip(t, p, strict=True)), len(t)]
            for t, p in zip(gold, predicted, strict=True)
        ]
        self.parts: Float64s = np.concatenate([np.array(rows), np.array(words)], 1).astype(
            np.float64
        )
        """[E, 5]: entities right, predicted, true; words right, words."""

    @property
    def statistic(self) -> Statistic:
        """`precision`, `recall`, `f1` of entities and `accuracy` of words' tags."""
        return of_sums(self.parts, _entity_formula)


def _entity_formula(sums: Float64s) -> Mapping[str, Float64s]:
    hits, chosen, true, right, words = sums.T
    return {
        "precision": ratio(hits, chosen),
        "recall": ratio(hits, true),
        "f1": f1_of(hits, chosen, true),
        "accuracy": ratio(right, words),
    }


class TagCounts:
    """Tags where each word has one and there are no entities: parts of speech."""

    def __init__(self, gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
        flat = [[tag for tags in side for tag in tags] for side in (gold, predicted)]
        self.tags = tuple(sorted(set(flat[0]) | set(flat[1])))
        """C tags, in gold or predicted, in the order of the alphabet."""
        numbers = {tag: number for number, tag in enumerate(self.tags)}
        self.gold, self.predicted = (
            np.array([numbers[tag] for tag in side], dtype=np.int64) for side in flat
        )
        """Numbers of tags, [W]."""
        sizes = [len(tags) for tags in gold]
        self._parts = class_counts(self.gold, self.predicted, len(self.tags), sizes)
        self.by_tag: Float64s = self._parts.sum(axis=0).reshape(3, -1)
        """[3, C], for `per_class`."""

    @property
    def statistic(self) -> Statistic:
        """`accuracy` of words, and `macro_f1` over tags."""

        def formula(sums: Float64s) -> Mapping[str, Float64s]:
            hits, chosen, true = np.split(sums, 3, axis=1)
            accuracy = ratio(hits.sum(1), true.sum(1))
            return {"accuracy": accuracy, "macro_f1": macro_f1_of(hits, chosen, true)}

        return of_sums(self._parts, formula)
