"""The labelled task of a quickstart, on corpora written by hand (tests/cli runs it whole)."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.recipes.compare.text import held_out_documents
from bertwright.recipes.quickstart import task
from tests.raising import assert_names

PACKAGES = ("numpy", "rich", "torch")
SHARED = "This sentence of thirteen words stands in every module of one package alone."
COMMON = "This other sentence of many more words stands in the modules of all."
HELD_OUT = held_out_documents(120, 0.2).tolist()


def modules_of(
    documents: list[tuple[str, list[str]]],
) -> list[tuple[dict[str, Any], list[str], bool]]:
    """Modules, each of a package with its sentences; some are held out."""
    return [
        (
            {"module": f"{package}.m{number}", "package": package, "source": "packages"},
            sentences,
            bool(HELD_OUT[number]),
        )
        for number, (package, sentences) in enumerate(documents)
    ]


def sentences_of(package: str, number: int, count: int = 12) -> list[str]:
    """Sentences of 13 words that no other module has, each with the package's name in it."""
    words = " ".join(f"w{number}" for _ in range(10))
    return [f"The {package} {words} s{number}x{place}." for place in range(count)]


def some_documents(count: int = 120) -> list[tuple[str, list[str]]]:
    """Modules of the three packages in turn, with a sentence that they share."""
    found = []
    for number in range(count):
        package = PACKAGES[number % 3]
        shared = [COMMON, SHARED] if package == "numpy" else [COMMON]
        found.append((package, [*sentences_of(package, number), *shared]))
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("examples", "count"), [(30, 30), (100, 99), (100_000, None)])
def test_files_are_balanced(tmp_path: Path, examples: int, count: int | None) -> None:
    files = task.write_labelled(tmp_path, modules_of(some_documents()), examples)
    for path in (files.train, files.test):
        rows = rows_of(path)
        assert len({row["text"] for row in rows}) == len(rows)
        labels = Counter(row["label"] for row in rows)
        assert labels == dict.fromkeys(PACKAGES, len(rows) // 3)
    assert len(rows_of(files.train)) == files.examples
    assert files.examples == count if count else files.examples > 900


def test_training_and_test_are_of_the_modules_of_pretraining(tmp_path: Path) -> None:
    modules = modules_of(some_documents())
    files = task.write_labelled(tmp_path, modules, 90)
    held_out = {entry["module"] for entry, _, is_held_out in modules if is_held_out}
    assert {row["module"] for row in rows_of(files.test)} <= held_out
    train = rows_of(files.train)
    assert not {row["module"] for row in train} & held_out
    assert all(row["module"].startswith(row["label"]) for row in train)


def test_no_sentence_is_on_both_sides(tmp_path: Path) -> None:
    files = task.write_labelled(tmp_path, modules_of(some_documents()), 600)
    train, test = rows_of(files.train), rows_of(files.test)
    assert any(row["text"] == SHARED for row in train)
    assert all(row["text"] != SHARED for row in test)
    assert all(row["text"] != COMMON for row in (*train, *test))


def test_no_name_gives_a_label_away(tmp_path: Path) -> None:
    files = task.write_labelled(tmp_path, modules_of(some_documents()), 600)
    rows = rows_of(files.train) + rows_of(files.test)
    assert rows
    for row in rows:
        assert not re.search("numpy|rich|torch", row["text"])
        assert row["text"] == SHARED or row["text"].startswith("The package w")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("NumPy's np.array of PyTorch", "package's package.array of package"),
        ("torch.nn and numpydoc, TORCH_LOGS=1", "package.nn and package, package=1"),
        ("Rich text enriches an npz", "package text enriches an npz"),
        ("scikit-learn, or Scikit learn", "package, or package"),
        ("Hugging Face's huggingface_hub", "package's package"),
    ],
)
def test_names_that_are_hidden(text: str, hidden: str) -> None:
    assert task.hider(["huggingface_hub", "numpy", "rich", "sklearn", "torch"])(text) == hidden


@given(st.lists(st.text("ab é.\n", min_size=1, max_size=60), max_size=40))
def test_passages_keep_words_in_order(sentences: list[str]) -> None:
    least, most = task.WORDS
    said = [word for sentence in sentences for word in sentence.split()]
    place = 0
    for passage in task.passages(sentences):
        words = passage.split()
        assert least <= len(words) <= most
        while said[place : place + len(words)] != words:
            place += 1
            assert place < len(said)
        place += len(words)


def test_labels_are_the_packages_with_most() -> None:
    def some(counts: dict[str, int]) -> dict[str, list[task.Passage]]:
        return {name: [task.Passage("t", name, "m")] * n for name, n in counts.items()}

    train = some({f"p{n:02}": 100 + n for n in range(12)} | {"few": 24, "untested": 999})
    test = some(dict.fromkeys(train, 15) | {"untested": 14})
    assert task.choose_labels(train, test) == tuple(f"p{n:02}" for n in range(4, 12))


def test_held_out_modules_that_say_nothing_new(tmp_path: Path) -> None:
    """What remains of them after names are hidden was learned from: there is no test."""
    old = [f"{' '.join(['old'] * 12)} number {n}." for n in range(12)]
    modules = modules_of([(p, [f"{p} {s}" for s in old]) for p in PACKAGES for _ in range(40)])
    with pytest.raises(task.TooFewPackages):
        task.write_labelled(tmp_path / "task", modules, 90)
    with pytest.raises(task.TooFewPackages, match="0 packages"):
        task.write_labelled(tmp_path / "task", modules_of(some_documents(12)), 90)
    assert not (tmp_path / "task").exists()


def test_the_task_is_said() -> None:
    said = task.task_sentence(["numpy", "python", "torch"], 960)
    assert_names(said, "3 packages", "numpy, python, torch", '"package"', "960 test passages")
