"""The experiment on attention heads: heads that find what they are made to find."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertwright.arrays import Float32s
from bertwright.inference.attention import maps
from bertwright.inference.encode import ModelRunner
from bertwright.inference.model import Model, load
from bertwright.text.treebank.dependencies import DependencySentence
from tests.house.source import ROOT
from tests.small_bert import CONFIG, write_model

sys.path.append(str(ROOT / "experiments/attention_heads"))

import coreference
import run
import syntax
from coreference import pronoun_sentences, score_coreference
from syntax import chosen, score_syntax, word_maps

TREES = "(S (NP-SBJ (DT the) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .))\n"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that reads the sentences of `coreference`."""
    config = replace(CONFIG, max_position_embeddings=99)
    return str(write_model(tmp_path_factory.mktemp("wide") / "model", (), config))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load(write_model(tmp_path_factory.mktemp("small") / "model", ()), device="cpu")


def test_the_script_writes_its_results(
    wide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, trees, out = tmp_path / "texts.txt", tmp_path / "a.mrg", tmp_path / "results.jsonl"
    texts.write_text("the cat\n\na dog runs.\nnot this\n", "utf-8")
    trees.write_text(TREES * 20, "utf-8")
    words = ["--model", wide, "--corpus", texts, "--treebank", trees, "--limit", 2, "--out", out]
    monkeypatch.setattr(sys, "argv", ["run.py", *map(str, words)])
    run.main()
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    heads = {(row["layer"], row["head"]) for row in rows if "entropy" in row}
    assert len(heads) == CONFIG.num_hidden_layers * CONFIG.num_attention_heads
    assert [row["count"] for row in rows if row.get("relation") == "all"] == [8]
    assert [row["count"] for row in rows if row.get("coreference")] == [40]


def test_attention_between_words() -> None:
    p = np.arange(25, dtype=np.float32).reshape(5, 5)
    found = word_maps(p, [slice(1, 2), slice(2, 4)])  # of [CLS] a b ##b [SEP]
    assert found.tolist() == [[6, 7 + 8], [(11 + 16) / 2, (12 + 13 + 17 + 18) / 2]]


def test_what_is_chosen_on_one_half_is_evaluated_on_the_other() -> None:
    right = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 0]], bool)
    # half 0 chooses candidate 0, never right in half 1; half 1 chooses 1, never right in half 0
    assert chosen(right, np.array([0, 0, 1, 1])) == (2, 0.0)


def planted(
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    target: Callable[[int, int], int | None],
) -> None:
    """Maps in which head 2 of layer 2 attends as `target(row, token)` says, all others evenly."""

    def fake(runner: ModelRunner, ids: list[list[int]]) -> Iterator[tuple[int, Float32s]]:
        for row, found in maps.maps_of_all(runner, ids):
            found[:] = 1 / found.shape[-1]
            for token in range(found.shape[-1]):
                if (to := target(row, token)) is not None:
                    found[1, 1, token] = 0
                    found[1, 1, token, to] = 1
            yield row, found

    monkeypatch.setattr(module, "maps_of_all", fake)


def test_the_head_that_attends_to_heads_is_found(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = (
        DependencySentence(["a", "b", "c", "d"], [2, 3, -1, 1], ["x", "y", "", "x"]),
        DependencySentence(["a", "b", "c"], [2, -1, 0], ["y", "", "x"]),
    )
    sentences = [each for each in two for _ in range(4)]
    planted(
        monkeypatch,
        syntax,
        lambda row, token: dict(enumerate(sentences[row].heads, 1)).get(token, -1) + 1 or None,
    )
    monkeypatch.setattr(syntax, "LEAST", 2)
    count, found = score_syntax(model.runner, sentences)
    assert count == 8
    assert list(found) == [syntax.ALL, "x", "y"]
    for best in found.values():
        assert (best.layer, best.head, best.direction) == (2, 2, "dependent to head")
        assert best.accuracy == 1
    assert found["x"].count == 12
    assert found[syntax.ALL].baseline_accuracy < 1


def test_the_pronouns_have_two_nouns_each() -> None:
    sentences = pronoun_sentences()
    assert len(sentences) == 40
    for first, second in zip(sentences[::2], sentences[1::2], strict=True):
        assert first.words[first.pronoun] == second.words[second.pronoun]
        assert first.words[first.pronoun] in ("it", "its")
        assert (first.words[first.right], first.words[first.wrong]) == (
            second.words[second.wrong],
            second.words[second.right],
        )
        assert first.words[-1] == second.words[-1] == "."


def test_the_head_that_links_pronouns_is_found(wide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = load(wide, device="cpu").runner
    sentences = pronoun_sentences()
    words = [syntax.split_words(runner, each.words) for each in sentences]

    def target(row: int, token: int) -> int | None:
        found = words[row]
        spans, each = found[1], sentences[row]
        return spans[each.right].start if token in range(*spans[each.pronoun].indices(99)) else None

    planted(monkeypatch, coreference, target)
    best = score_coreference(runner)
    assert (best.count, best.layer, best.head, best.accuracy) == (40, 2, 2, 1.0)
    assert best.baseline_accuracy == 0.5
