"""The columns that options name, and those of the training file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bertwright.errors import DataError, listed
from bertwright.rows.columns import plain


@dataclass(frozen=True)
class Columns:
    """The columns that options name, or number from 1. None: they are found by their known
    names.
    """

    text: str | None = None
    text2: str | None = None
    label: str | None = None
    labels: tuple[str, ...] = ()
    """Several columns in place of `label`: one for each class; or the names of the classes, if one
    column has lists of 0 and 1.
    """
    negatives: tuple[str, ...] = ()
    """Columns of hard negatives, each a text or a list of texts (similarity)."""

    def __post_init__(self) -> None:
        names = self.names()
        if len({*names}) != len(names):
            raise DataError(f"a column is named twice: {listed(names)} (--text, --text2, --label)")

    def texts(self) -> list[str]:
        """Return the columns of texts that are not None."""
        return [name for name in (self.text, self.text2) if name is not None]

    def names(self) -> list[str]:
        """Return all columns that are not None."""
        label = [] if self.label is None else [self.label]
        return [*self.texts(), *label, *self.labels, *self.negatives]

    def or_of(self, hint: Columns, there: Sequence[str]) -> Columns:
        """Return these columns, completed with those of the training file that are among
        `there`.
        """
        names = {*map(plain, there)}
        text, text2, label = self.text, self.text2, self.label
        if not self.texts() and names.issuperset(map(plain, hint.texts())):
            text, text2 = hint.text, hint.text2
        label_is_free = label is None and not self.labels
        if label_is_free and plain(hint.label or "") in names and hint.label not in (text, text2):
            label = hint.label
        labels = self.labels
        if label is None and not labels and names.issuperset(map(plain, hint.labels)):
            labels = hint.labels
        negatives = self.negatives
        if not negatives and names.issuperset(map(plain, hint.negatives)):
            negatives = hint.negatives
        return Columns(text, text2, label, labels, negatives)


def make_columns(
    text: str | None,
    text2: str | None,
    label: str | Sequence[str] | None,
    negatives: Sequence[str] = (),
) -> Columns:
    """Return the columns that options name; `label` is one column or several."""
    several = (label,) if isinstance(label, str) else tuple(label or ())
    if len(several) == 1:
        return Columns(text, text2, several[0], (), tuple(negatives))
    return Columns(text, text2, None, several, tuple(negatives))
