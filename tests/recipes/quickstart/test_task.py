"""The labelled task of a quickstart, on corpora written by hand (tests/cli runs it whole)."""

from __future__ import annotations

import gzip
import json
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertwright.config.finetune import FinetuneConfig
from bertwright.data.split import split_documents
from bertwright.errors import Interrupted
from bertwright.recipes.quickstart import task
from bertwright.recipes.quickstart.corpus import corpus_files
from bertwright.recipes.quickstart.run import Paths
from bertwright.train.signals import Signals
from tests.data.conftest import write_shards

PACKAGES = ("numpy", "rich", "torch")
SHARED = "This sentence of thirteen words stands in every module of one package alone."
COMMON = "This other sentence of many more words stands in the modules of all."


def write_corpus(paths: Paths, documents: list[tuple[str, list[str]]]) -> None:
    """A corpus and shards of as many documents, each of a package and its sentences."""
    paths.corpus.mkdir(parents=True)
    paths.run.mkdir()
    text, index = corpus_files(paths.corpus)
    whole = "\n\n".join("\n".join(sentences) for _, sentences in documents)
    text.write_bytes(gzip.compress(whole.encode()))
    lines = []
    for number, (package, _) in enumerate(documents):
        place = {"document": number, "module": f"{package}.m{number}", "package": package}
        lines.append(json.dumps({**place, "source": "packages"}))
    index.write_text("\n".join(lines) + "\n")
    write_shards(paths.shards, [[5] * len(sentences) for _, sentences in documents])


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


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(tmp_path / "start")
    write_corpus(found, some_documents())
    return found


def rows_of(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_files_are_balanced_and_each_holds_the_one_before(paths: Paths) -> None:
    files = task.write_task(paths, 0.2, [30, 90, 100000])
    assert files.labels == PACKAGES
    assert [count for count, _ in files.train[:2]] == [30, 90]
    before: list[dict[str, str]] = []
    for count, path in (*files.train, files.test):
        rows = rows_of(path)
        assert len(rows) == count
        assert len({row["text"] for row in rows}) == count
        labels = Counter(row["label"] for row in rows)
        assert labels == dict.fromkeys(PACKAGES, count // 3)
        if path is not files.test[1]:
            assert rows[: len(before)] == before
            before = rows
    most = files.train[-1][0] // 3
    assert most > 300


def test_training_and_test_are_of_the_modules_of_pretraining(paths: Paths) -> None:
    files = task.write_task(paths, 0.2, [90])
    shards = task.read_modules(paths, 0.2)
    held_out = {entry["module"] for entry, _, is_held_out in shards if is_held_out}
    numbers = split_documents(write_shards(paths.folder / "s", [[5]] * 120), "dev", 0.2)
    assert held_out == {f"{PACKAGES[n % 3]}.m{n}" for n in numbers.tolist()}
    assert {row["module"] for row in rows_of(files.test[1])} <= held_out
    train = rows_of(files.train[0][1])
    assert not {row["module"] for row in train} & held_out
    assert all(row["module"].startswith(row["label"]) for row in train)


def test_no_sentence_is_on_both_sides(paths: Paths) -> None:
    files = task.write_task(paths, 0.2, [600])
    train, test = rows_of(files.train[0][1]), rows_of(files.test[1])
    assert any(row["text"] == SHARED for row in train)
    assert all(row["text"] != SHARED for row in test)
    assert all(row["text"] != COMMON for row in (*train, *test))


def test_no_name_gives_a_label_away(paths: Paths) -> None:
    files = task.write_task(paths, 0.2, [600])
    rows = rows_of(files.train[0][1]) + rows_of(files.test[1])
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


@pytest.mark.parametrize(
    ("sizes", "labels", "most", "found"),
    [
        ([100, 400, 1600], 8, 1000, [12, 50, 200]),
        ([100, 400, 1600], 8, 90, [12, 50, 90]),
        ([100], 8, 5, [5]),
        ([2], 8, 5, [1]),
    ],
)
def test_sizes(sizes: list[int], labels: int, most: int, found: list[int]) -> None:
    assert task.per_label(sizes, labels, most) == found


def test_labels_are_the_packages_with_most(paths: Paths) -> None:
    def some(counts: dict[str, int]) -> dict[str, list[task.Passage]]:
        return {name: [task.Passage("t", name, "m")] * n for name, n in counts.items()}

    train = some({f"p{n:02}": 100 + n for n in range(12)} | {"few": 24, "untested": 999})
    test = some(dict.fromkeys(train, 15) | {"untested": 14})
    assert task.choose_labels(train, test) == tuple(f"p{n:02}" for n in range(4, 12))


def test_held_out_modules_that_say_nothing_new(tmp_path: Path) -> None:
    """What remains of them after names are hidden was learned from: there is no test."""
    paths = Paths(tmp_path)
    write_corpus(paths, [(p, [f"{p} {s}" for s in OLD]) for p in PACKAGES for _ in range(40)])
    with pytest.raises(task.TooFewPackages):
        task.write_task(paths, 0.2, [90])


OLD = [f"{' '.join(['old'] * 12)} number {n}." for n in range(12)]


@pytest.fixture
def large(tmp_path: Path) -> Paths:
    found = Paths(tmp_path)
    write_corpus(found, some_documents(300))
    (found.run / "environment.json").write_text('{"precision": "fp32"}')
    return found


@pytest.mark.parametrize(
    ("minutes", "sizes"),
    [(0.2, [100]), (1, [100, 400]), (5, [100, 400, 1600]), (30, [100, 400, 1600, 6400])],
)
def test_more_minutes_pay_for_more_labels(minutes: float, sizes: list[int]) -> None:
    assert task.sizes_for(minutes) == sizes


def test_few_examples_are_seen_more_often() -> None:
    assert [task.epochs_for(n) for n in (6, 96, 400, 1600, 6400)] == [20, 16, 8, 4, 3]


def test_too_few_packages_are_no_error(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    write_corpus(paths, some_documents(12))
    found = task.learning_curve(paths, 5)
    assert "0 packages here have documentation enough" in found["left_out"]
    assert json.loads((paths.run / "learning_curve.json").read_text()) == found
    assert not paths.task.exists()


def test_an_interruption_names_what_is_whole(large: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tasks: Any, config: FinetuneConfig, *_: Any, **__: Any) -> None:
        Path(config.out).mkdir()
        raise Interrupted(signal.SIGINT, "interrupted before a seed was finished")

    monkeypatch.setattr(task, "finetune", broken)
    with pytest.raises(Interrupted, match=r"pre-trained model in .* are whole") as it:
        task.learning_curve(large, 5)
    assert it.value.exit_code == 130
    assert not (large.folder / ".finetuning").exists()
    assert not (large.run / "learning_curve.json").exists()


def test_a_signal_in_the_last_step_of_a_run_ends_the_work(
    large: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def finished(*_: Any, **__: Any) -> None:
        runs.append(1)
        with Signals():
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(task, "finetune", finished)
    with pytest.raises(Interrupted) as it:
        task.learning_curve(large, 5)
    assert it.value.exit_code == 143
    assert len(runs) == 1


def test_every_method_meets_the_same_files(large: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, FinetuneConfig]] = []

    def answer(tasks: Any, config: FinetuneConfig, *_: Any, **__: Any) -> dict[str, Any]:
        asked.append((tasks[0], config))
        share = len(asked) / 100
        return {
            "summary": {"accuracy": {"mean": share}},
            "degenerate": len(asked) == 1,
            "baselines": {n: {"accuracy": 0.5} for n in ("majority", "tfidf") if config.baselines},
        }

    monkeypatch.setattr(task, "finetune", answer)
    told: list[tuple[int, int | None]] = []
    found = task.learning_curve(large, 3, lambda *done: told.append(done))
    assert found["sizes"] == [99, 399, 1599]
    by_name = {method["name"]: method for method in found["methods"]}
    assert by_name["pretrained"]["accuracy"] == [0.01, 0.04, 0.07]
    assert by_name["pretrained"]["degenerate"] == [True, False, False]
    assert by_name["frozen"]["accuracy"] == [0.02, 0.05, 0.08]
    assert by_name["random_start"]["accuracy"] == [0.03, 0.06, 0.09]
    assert by_name["majority"]["accuracy"] == by_name["tfidf"]["accuracy"] == [0.5] * 3
    assert all(low < 0.5 < high for low, high in by_name["tfidf"]["intervals"])
    for place in (0, 3, 6):
        (first, tuned), (_, frozen), (third, random) = asked[place : place + 3]
        assert first == third
        assert (tuned.random_start, random.random_start) == (False, True)
        assert (tuned.epochs, tuned.learning_rate) == (random.epochs, random.learning_rate)
        assert (tuned.keep, frozen.transfer) == ("last", "features")
    assert [config.out == str(large.finetuned) for _, config in asked].index(True) == 6
    assert told[-1][0] == told[-1][1]
    assert f"--train {large.task}/train-1599.jsonl" in found["command"]
