"""`bertwright data trees`, `pretrain` and `parse`: a treebank is learned and evaluated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bertwright.cli.app import run
from bertwright.errors import DataError
from bertwright.inference.model import load
from bertwright.text.treebank.trees import parse_trees
from tests.cli.conftest import JsonOf, Ran

pytestmark = pytest.mark.slow

NOUNS, VERBS = ("cat", "dog", "bird", "horse"), ("saw", "chased", "liked")
TREES = [
    f"(S (NP-SBJ (DT the) (NN {noun})) (VP (VBD {verb}) (NP (DT a) (NN {other}))) (. .))"
    for noun in NOUNS
    for verb in VERBS
    for other in NOUNS
] + [f"(S (NP-SBJ (DT the) (NN {noun})) (VP (VBD slept)) (. .))" for noun in NOUNS]
SIZES = [
    f"--architecture.{name}={value}"
    for name, value in {
        "hidden-size": 32, "num-hidden-layers": 1, "num-attention-heads": 2,
        "intermediate-size": 32, "hidden-dropout-prob": 0, "label-smoothing": 0,
    }.items()
]  # fmt: skip


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trees") / "train.mrg"
    file.write_text("\n".join(TREES), "utf-8")
    return file


@pytest.fixture(scope="module")
def parser(treebank: Path) -> str:
    shards, out = treebank.with_name("shards"), treebank.with_name("run")
    assert run(["data", "trees", str(treebank), "--vocab-size", "100", "--out", str(shards)]) == 0
    words = ["pretrain", "--model", "transformer-small", "--data", str(shards), "--out", str(out)]
    words += ["--steps", "120", "--batch.tokens", "512", "--sequence-length", "64", *SIZES]
    words += ["--optimizer.matrices", "muon", "--optimizer.learning-rate", "5e-3"]
    words += ["--optimizer.matrix-learning-rate", "5e-3", "--precision", "fp32", "--device", "cpu"]
    words += ["--schedule.curve", "linear", "--validation.fraction", "0.05"]
    assert run(words) == 0
    return str(out)


def test_the_treebank_is_learned(parser: str, treebank: Path, json_of: JsonOf) -> None:
    more = treebank.with_name("more.mrg")
    more.write_text(treebank.read_text("utf-8") + f"(S {'(NN a) ' * 251})", "utf-8")
    found = json_of("parse", "--model", parser, "--reference", more)
    assert found["left_out"] == 1
    assert found["sentences"] == len(TREES)
    assert found["f1"] > 0.95
    assert found["well_formed"] > 0.95


def test_arguments_files_and_standard_input(
    parser: str, tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    text = "the dog saw a horse."
    shown = ran("parse", "--model", parser, text).out
    (tree,) = parse_trees([shown])
    assert tree.words() == ["the", "dog", "saw", "a", "horse", "."]
    (tree,) = parse_trees([ran("parse", "--model", parser, "the dog (a horse) slept.").out])
    assert tree.words() == ["the", "dog", "-LRB-", "a", "horse", "-RRB-", "slept", "."]
    (parsed,) = json_of("parse", "--model", parser, "a cat slept .", "--words")["parses"]
    assert parsed["words"] == ["a", "cat", "slept", "."]
    assert {"tree", "well_formed", "score"} < parsed.keys()
    (same,) = load(parser).parse("a cat slept.")
    assert str(same.tree) == parsed["tree"]
    out = tmp_path / "out.trees"
    words = ["parse", "--model", parser, "--input", "-", "--beam", "1", "--out", out]
    ran(*words, stdin=f"{text}\n\n{text}\n".encode())
    first, empty, third = out.read_text("utf-8").splitlines()
    assert (first, empty) == (third, "")


def test_an_interrupted_run_keeps_what_was_written(
    parser: str, tmp_path: Path, interrupted: Callable[[str], None], ran: Ran
) -> None:
    interrupted("bertwright.inference.translation.parse.parse")
    out = tmp_path / "out.trees"
    ran("parse", "--model", parser, *["a cat slept."] * 3, "--out", out, code=130)
    assert len(out.read_text("utf-8").splitlines()) == 2


def test_errors_say_what_to_do(parser: str, tmp_path: Path, ran: Ran) -> None:
    broken = tmp_path / "broken.mrg"
    broken.write_text("(S (NN a))\n(S (NN b)\n", "utf-8")
    for words, code, message in (
        (["parse", "--model", parser], 2, "--input"),
        (["parse", "--model", parser, "a", "--beam", "0"], 2, "beam is 0"),
        (["parse", "--model", parser, "--reference", broken], 4, "line 2 of"),
        (["data", "trees", broken, "--out", tmp_path / "o"], 4, "1 ')' missing"),
        (["parse", "--model", parser, "a " * 300], 4, "sentence 1 has 300 words"),
        (["translate", "--model", parser, "a"], 4, "bertwright parse"),
    ):
        assert message in ran(*words, code=code).err
    with pytest.raises(DataError, match="bertwright parse"):
        load(parser).translate("a")
    out = tmp_path / "out.trees"
    ran("parse", "--model", parser, "a " * 300, "--out", out, code=4)
    assert not out.exists()


def test_a_translation_model_is_no_parser(tmp_path: Path, ran: Ran) -> None:
    from tests.small_runs import build_pairs

    shards, out = build_pairs(tmp_path), tmp_path / "run"
    words = ["pretrain", "--model", "transformer-small", "--data", shards, "--steps", "2"]
    ran(*words, "--out", out, *SIZES, "--sequence-length", "32")
    assert "brackets" in ran("parse", "--model", out, "a", code=4).err


def test_pretraining_on_trees_ends_with_how_to_parse(
    parser: str, treebank: Path, tmp_path: Path, ran: Ran
) -> None:
    words = ["--data", treebank.with_name("shards"), "--out", tmp_path / "on", "--steps", "1"]
    said = ran("pretrain", "--init", parser, *words, "--sequence-length", "64").err
    assert "bertwright parse --model" in said


def test_trees_that_the_model_does_not_read_are_left_out(
    treebank: Path, tmp_path: Path, ran: Ran, json_of: JsonOf
) -> None:
    out, shards = tmp_path / "run", treebank.with_name("shards")
    words = ["pretrain", "--model", "bert2rnd", "--data", shards, "--steps", "1", "--out", out]
    ran(*words, *SIZES, "--architecture.num-decoder-layers", "1", "--sequence-length", "32")
    long = tmp_path / "long.mrg"
    long.write_text(f"{TREES[0]}\n(S {'(NN cat) ' * 20})\n", "utf-8")
    found = json_of("parse", "--model", out, "--reference", long, "--beam", "1")
    assert (found["sentences"], found["left_out"]) == (1, 1)
    long.write_text(f"(S {'(NN cat) ' * 20})\n", "utf-8")
    words = ["parse", "--model", out, "--reference", long]
    assert "long.mrg" in ran(*words, code=4).err
