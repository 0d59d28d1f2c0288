"""A labelled task out of a quickstart's corpus: which package does this documentation belong to?

The labels are real: a module says where it stands. Training examples are of the modules that
pre-training learned from, test examples of those it held out. A held-out sentence that stands in a
training module too is left out, and a passage that two labels or both sides have is in neither, so
that no docstring is on both sides.

An example is a passage: sentences of one module that follow one another, as many as it takes to
have 12 words, cut at 40. A package's name would give it away, so the names of all packages of the
task, and what they are known by (`np`, `PyTorch`), are replaced by the word "package" in every
passage. The labels are balanced: as many examples of each, drawn by lot.

In `OUT/task/`: `train-96.jsonl`, `train-400.jsonl`, ... (each holds the one before) and
`test.jsonl`; an object a line with `text`, `label` and `module`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertwright.atomic import disk_errors
from bertwright.errors import DataError
from bertwright.recipes.quickstart.run import Places, read_modules

MOST_LABELS = 8
FEWEST_LABELS = 3
FEWEST_TO_LEARN, FEWEST_TO_TEST = 25, 15
"""Passages that a package must have to be a label."""
MOST_TO_TEST = 120
"""Test passages of each label, at most."""
WORDS = (12, 40)
"""A passage goes on until it has so many words, and is cut at so many."""
LONGEST_WHOLE = 5
"""A name of so many letters or more is hidden inside longer words too: `NumPy's`, `pythonic`."""
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
"""What packages are called beside their names."""


class TooFewPackages(DataError):
    """This corpus makes no such task."""


@dataclass(frozen=True)
class Passage:
    """An example: a text and where it is from."""

    text: str
    label: str
    module: str


@dataclass(frozen=True)
class LabelledFiles:
    """The task as files."""

    labels: tuple[str, ...]
    train: tuple[tuple[int, Path], ...]
    """Examples and file of each size, the smallest first."""
    test: tuple[int, Path]
    passages: Mapping[str, tuple[int, int]]
    """How many passages there were to draw from: of each label, to learn from and to test with."""


def write_task(places: Places, validation_share: float, sizes: Sequence[int]) -> LabelledFiles:
    """Write the labelled files.

    Args:
        places: of a quickstart whose corpus and shards stand.
        validation_share: share of the modules that pre-training held out.
        sizes: how many training examples the files shall have, rising; each becomes a multiple of
            the number of labels, and no more than there are.

    Raises:
        TooFewPackages: fewer than three packages have passages enough.
    """
    modules = list(read_modules(places, validation_share))
    learned = {_plain(s) for _, sentences, is_held in modules if not is_held for s in sentences}
    train: dict[str, list[Passage]] = {}
    test: dict[str, list[Passage]] = {}
    for entry, sentences, is_held in modules:
        label = label_of(entry)
        if is_held:
            sentences = [s for s in sentences if _plain(s) not in learned]
        side = (test if is_held else train).setdefault(label, [])
        side.extend(Passage(text, label, entry["module"]) for text in passages(sentences))
    labels = choose_labels(train, test)
    learn, ask = _drawn(train, test, labels, max(sizes) // len(labels))
    most = min(map(len, learn))
    count = min(MOST_TO_TEST, *map(len, ask))
    if not most or not count:
        raise TooFewPackages("the packages here say nothing of their own in so few words")
    folder = places.task
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for each in per_label(sizes, len(labels), most):
            rows = _mixed([found[:each] for found in learn])
            files.append((len(rows), _write(folder / f"train-{len(rows)}.jsonl", rows)))
        rows = _mixed([found[:count] for found in ask])
        test_file = (len(rows), _write(folder / "test.jsonl", rows))
    there = {label: (len(train[label]), len(test[label])) for label in labels}
    return LabelledFiles(labels, tuple(files), test_file, there)


def label_of(entry: Mapping[str, Any]) -> str:
    """The package of a module of the index; all of the standard library and its topics: python."""
    return str(entry["package"]) if entry["source"] == "packages" else "python"


def passages(sentences: Sequence[str]) -> Iterator[str]:
    """Sentences that follow one another, joined to passages of `WORDS` words."""
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
    """The packages with most passages to learn from, in the order of their names.

    Raises:
        TooFewPackages: fewer than three have enough.
    """
    fitting = [
        label
        for label, found in train.items()
        if len(found) >= FEWEST_TO_LEARN and len(test.get(label, ())) >= FEWEST_TO_TEST
    ]
    if len(fitting) < FEWEST_LABELS:
        raise TooFewPackages(
            f"{len(fitting)} packages here have documentation enough for a labelled task "
            f"({FEWEST_TO_LEARN} passages to learn from and {FEWEST_TO_TEST} in held-out modules); "
            f"expected {FEWEST_LABELS} or more: the more packages are installed, the more there is"
        )
    most = sorted(fitting, key=lambda label: (-len(train[label]), label))[:MOST_LABELS]
    return tuple(sorted(most))


def hider(labels: Sequence[str]) -> Callable[[str], str]:
    """A function that replaces what gives a label away by the word `package`."""
    parts = []
    for label in labels:
        for name in (label, *ALSO_CALLED.get(label, ())):
            spelled = r"[\s_-]?".join(map(re.escape, re.split(r"[-_]", name)))
            parts.append(rf"\w*{spelled}\w*" if len(name) >= LONGEST_WHOLE else rf"\b{spelled}\b")
    pattern = re.compile("|".join(parts), re.IGNORECASE)
    return lambda text: pattern.sub(HIDDEN, text)


def per_label(sizes: Sequence[int], labels: int, most: int) -> list[int]:
    """Examples of each label for training files of about these sizes; `most` are there.

    A size that is not there becomes all there are, if that is well over the size before.
    """
    found: list[int] = []
    for size in sizes:
        each = min(most, max(1, size // labels))
        if not found or each >= 1.5 * found[-1]:
            found.append(each)
    return found


def _drawn(
    train: Mapping[str, Sequence[Passage]],
    test: Mapping[str, Sequence[Passage]],
    labels: Sequence[str],
    count: int,
) -> tuple[list[list[Passage]], list[list[Passage]]]:
    """Passages of each label to learn from and to test with; what is in two places is in none."""
    hide = hider(labels)
    chance = np.random.default_rng(1)
    more = count + count // 10 + 10  # some are in two places
    learn = [_draw(train[label], more, hide, chance) for label in labels]
    ask = [_draw(test[label], 2 * MOST_TO_TEST, hide, chance) for label in labels]
    places = Counter(p.text for found in (*learn, *ask) for p in found)
    alone = [[p for p in found if places[p.text] == 1] for found in (*learn, *ask)]
    return alone[: len(labels)], alone[len(labels) :]


def _draw(
    found: Sequence[Passage], count: int, hide: Callable[[str], str], chance: Any
) -> list[Passage]:
    """Up to `count` passages in the order of a lot, names hidden, none twice."""
    once: dict[str, Passage] = {}
    for place in chance.permutation(len(found)):
        if len(once) == count:
            break
        text = hide(found[place].text)
        once.setdefault(text, replace(found[place], text=text))
    return list(once.values())


def _mixed(groups: Sequence[Sequence[Passage]]) -> list[Passage]:
    """One of each group in turn; the groups are equally long."""
    return [passage for row in zip(*groups, strict=True) for passage in row]


def _write(path: Path, rows: Sequence[Passage]) -> Path:
    lines = (json.dumps(vars(row), ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    return path


def _plain(sentence: str) -> str:
    """What two sentences share that say the same: their words."""
    return " ".join(re.findall(r"\w+", sentence.lower()))
