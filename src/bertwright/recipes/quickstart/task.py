"""The labelled task of a quickstart: to which package does a passage of documentation belong?

The labels are known, because the package of each module is known. Training examples are from
modules that pre-training used, test examples from modules that it held out. An example is a
passage: consecutive sentences of one module, as many as are needed for 12 words, truncated to 40. A
held-out sentence that also occurs in a training module is left out, and so is a passage that occurs
with two labels, or in both training and test. The name of a package would reveal the label, so the
names of all packages of the task, and their common abbreviations (`np`, `PyTorch`), are replaced by
"package" in every passage. The labels are balanced, and the passages are drawn at random.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.errors import DataError
from bertwright.report import sentences as written

MOST_LABELS = 8
FEWEST_LABELS = 3
FEWEST_TO_TRAIN, FEWEST_TO_TEST = 25, 15
"""The minimum numbers of training and test passages of a package that becomes a label."""
MOST_TO_TEST = 120
"""The maximum number of test passages of each label."""
WORDS = (12, 40)
"""The minimum and the maximum number of words of a passage."""
LONGEST_WHOLE = 5
"""Names with at least this many letters are replaced inside longer words too: `NumPy's`,
`pythonic`.
"""
HIDDEN = "package"
ALSO_CALLED: Mapping[str, tuple[str, ...]] = {
    "attr": ("attrs",),
    "huggingface_hub": ("hugging-face", "hf"),
    "matplotlib": ("pyplot", "plt", "mpl"),
    "networkx": ("nx",),
    "numpy": ("np",),
    "pandas": ("pd",),
    "python": ("py", "stdlib"),
    "sklearn": ("scikit-learn", "scikit"),
    "sympy": ("isympy",),
    "tensorflow": ("tf",),
    "torch": ("pytorch", "aten"),
}
"""Other names by which packages are called."""


class TooFewPackages(DataError):
    """Raised if the corpus does not have enough packages for the task."""


@dataclass(frozen=True)
class Passage:
    """An example: a text, its label, and the module that it is from."""

    text: str
    label: str
    module: str


@dataclass(frozen=True)
class LabelledFiles:
    """The files of the task."""

    train: Path
    test: Path
    examples: int
    """The number of training passages."""


def write_labelled(
    folder: Path,
    documents: Iterable[tuple[Mapping[str, Any], Sequence[str], bool]],
    examples: int,
) -> LabelledFiles:
    """Write labelled files of passages from modules.

    Args:
        folder: the folder to write to.
        documents: for each module, its entry in the index, its sentences, and whether it is held
            out.
        examples: the number of training passages, which is rounded to a multiple of the number of
            labels, and limited to the available passages.

    Raises:
        TooFewPackages: fewer than three packages have enough passages.
    """
    modules = list(documents)
    trained_on = {_plain(s) for _, sentences, is_held in modules if not is_held for s in sentences}
    train: dict[str, list[Passage]] = {}
    test: dict[str, list[Passage]] = {}
    for entry, sentences, is_held in modules:
        label = package_of(entry)
        if is_held:
            sentences = [s for s in sentences if _plain(s) not in trained_on]
        side = (test if is_held else train).setdefault(label, [])
        side.extend(Passage(text, label, entry["module"]) for text in passages(sentences))
    labels = choose_labels(train, test)
    of_each = max(1, examples // len(labels))
    to_train, to_test = _drawn(train, test, labels, of_each)
    of_each, to_evaluate = (
        min(most, *map(len, groups))
        for most, groups in ((of_each, to_train), (MOST_TO_TEST, to_test))
    )
    if not of_each or not to_evaluate:
        raise TooFewPackages("a package here has no passage that occurs in it alone")
    folder.mkdir(parents=True, exist_ok=True)
    return LabelledFiles(
        _write(folder / "train.jsonl", to_train, of_each),
        _write(folder / "test.jsonl", to_test, to_evaluate),
        of_each * len(labels),
    )


def package_of(entry: Mapping[str, Any]) -> str:
    """Return the package of an entry in the index; `python` for the standard library and the
    topics.
    """
    return str(entry["package"]) if entry["source"] == "packages" else "python"


def task_sentence(labels: Sequence[str], tested: int) -> str:
    """Return a description of the task with so many test passages."""
    facts = {"labels": labels, "words": WORDS, "hidden": HIDDEN, "tested": tested}
    return written.sentence("labelled", "task", **facts)


def passages(sentences: Sequence[str]) -> Iterator[str]:
    """Yield passages of consecutive sentences, with the numbers of words that `WORDS` allows."""
    least, most = WORDS
    words: list[str] = []
    for sentence in sentences:
        words += sentence.split()
        if len(words) >= least:
            yield " ".join(words[:most])
            words = []


def choose_labels(
    train: Mapping[str, Sequence[Passage]], test: Mapping[str, Sequence[Passage]]
) -> tuple[str, ...]:
    """Return the packages with the most training passages, sorted by name.

    Raises:
        TooFewPackages: fewer than three packages have enough passages.
    """
    fitting = [
        label
        for label, of_label in train.items()
        if len(of_label) >= FEWEST_TO_TRAIN and len(test.get(label, ())) >= FEWEST_TO_TEST
    ]
    if len(fitting) < FEWEST_LABELS:
        raise TooFewPackages(
            f"{len(fitting)} packages here have documentation enough for a labelled task "
            f"({FEWEST_TO_TRAIN} passages to train on and {FEWEST_TO_TEST} in held-out modules); "
            f"expected {FEWEST_LABELS} or more: the more packages are installed, the more there is"
        )
    most = sorted(fitting, key=lambda label: (-len(train[label]), label))[:MOST_LABELS]
    return tuple(sorted(most))


def hider(labels: Sequence[str]) -> Callable[[str], str]:
    """Return a function that replaces names that reveal a label with the word `package`."""
    parts = []
    for label in labels:
        for name in (label, *ALSO_CALLED.get(label, ())):
            spelled = r"[\s_-]?".join(map(re.escape, re.split(r"[-_]", name)))
            parts.append(rf"\w*{spelled}\w*" if len(name) >= LONGEST_WHOLE else rf"\b{spelled}\b")
    pattern = re.compile("|".join(parts), re.IGNORECASE)
    return lambda text: pattern.sub(HIDDEN, text)


def _drawn(
    train: Mapping[str, Sequence[Passage]],
    test: Mapping[str, Sequence[Passage]],
    labels: Sequence[str],
    count: int,
) -> tuple[list[list[Passage]], list[list[Passage]]]:
    """Draw training and test passages of each label; passages that occur twice are left out."""
    hide = hider(labels)
    generator = np.random.default_rng(1)

    def draw(of_label: Sequence[Passage], most: int) -> list[Passage]:
        """Return up to `most` distinct passages in random order, with names replaced."""
        once: dict[str, Passage] = {}
        for index in generator.permutation(len(of_label)):
            if len(once) == most:
                break
            text = hide(of_label[index].text)
            once.setdefault(text, replace(of_label[index], text=text))
        return list(once.values())

    more = count + count // 10 + 10  # more than needed, because some occur twice
    drawn = [draw(train[label], more) for label in labels]
    drawn += [draw(test[label], 2 * MOST_TO_TEST) for label in labels]
    occurrences = Counter(passage.text for of_label in drawn for passage in of_label)
    unique = [[p for p in of_label if occurrences[p.text] == 1] for of_label in drawn]
    return unique[: len(labels)], unique[len(labels) :]


def _write(path: Path, groups: Sequence[Sequence[Passage]], each: int) -> Path:
    """Write `each` passages of each group, alternating between groups, and return the path."""
    rows = [passage for row in zip(*(g[:each] for g in groups), strict=True) for passage in row]
    lines = (json.dumps(vars(row), ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    return path


def _plain(sentence: str) -> str:
    """Return the lower-cased words of a sentence, with which sentences are compared."""
    return " ".join(re.findall(r"\w+", sentence.lower()))
