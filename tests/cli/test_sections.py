"""`--help` shows the common options, `--help-all` every option, in sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bertwright.cli.app import VERBS, make_app
from bertwright.cli.sections import COMMON
from bertwright.cli.variants import variant_of
from bertwright.models.catalogue import MODELS
from bertwright.tasks.catalogue import options_of
from tests.cli.conftest import Ran
from tests.raising import assert_names


def options(verb: str, *words: str) -> set[str]:
    """The options that a verb takes."""
    app = make_app(words=[verb, *words])[verb]
    names = [a.name for a in app.assemble_argument_collection() if a.parse and not a.children]
    has_option = variant_of(app.default_command).has_option
    options = {name.removeprefix("--") for name in names if name.startswith("--")}
    return {name for name in options if has_option(name.replace("-", "_"))}


@pytest.mark.slow
@pytest.mark.parametrize("verb", COMMON)
def test_help_shows_common_options_and_help_all_every_one(verb: str, ran: Ran) -> None:
    listed = COMMON[verb].split()
    assert len(listed) == len(set(listed))
    both = {"finetune", "glue"} if verb in ("finetune", "glue") else {verb}  # they share theirs
    systems = {"pretrain": ("bert2rnd", "seq2seq-small")}.get(verb, ())  # with options of their own
    known = [*map(options, both), *(options(verb, "--model", name) for name in systems)]
    assert set(listed) <= set().union(*known)
    common = set(listed) & options(verb)
    for words, titles in (["--help"], ["Common options"]), (["--help-all"], None):
        out = ran(verb, *words).out
        shown = [title for title in re.findall(r"╭─ (.+?) ─", out) if title != "Arguments"]
        of_kind = [title for title in shown if title.startswith("Options of ")]
        assert titles is None or shown == [*titles, *of_kind]
    own = (
        {key.replace("_", "-") for key in options_of("classification")}
        if verb == "compare"
        else set()
    )
    hidden = len(options(verb) - common - own)
    assert_names(ran(verb, "--help").out, f"{hidden} more options", f"bertwright {verb} --help-all")
    assert 10 < len(common) + 5 < 25


def test_keys_of_a_part_stand_together(ran: Ran) -> None:
    out = ran("pretrain", "--help-all").out
    masks = out[out.index("─ Masking ─") :]
    assert "--masking.mask-fraction" in masks
    assert "--optimizer" not in masks
    assert "--masking" not in ran("pretrain", "--help").out


@pytest.mark.parametrize("words", [["--help"], ["--model", "glove", "--help-all"]], ids=" ".join)
def test_the_help_names_every_model(words: list[str], ran: Ran) -> None:
    out = ran("pretrain", *words).out
    end = out[out.index("Every verb takes") :]
    assert "bertwright pretrain --model NAME --help-all" in end
    names = set(re.findall(r"[\w-]+", end))
    assert {name for row in MODELS.values() for name in row.presets} <= names
    assert "--model NAME" not in ran("embed", "--help").out


@pytest.mark.parametrize("model", ["word2vec-cbow", "fasttext-skip-gram", "glove", "ngram"])
def test_options_that_a_system_does_not_read(model: str, ran: Ran) -> None:
    shown = ran("pretrain", "--model", model, "--help-all").out
    shown = shown[: shown.rindex("╰")]  # without the examples
    assert "--epochs" in shown
    for option in ("--optimizer", "--schedule", "--batch", "--steps", "--compile"):
        assert option not in shown
    assert ("--minutes" in shown) == (model != "ngram")
    for words in (
        ["--optimizer.learning-rate", "1e-3"],
        ["--optimizer.learning_rate=1e-3"],
        ["--schedule.warmup", "0.1"],
        ["--batch.tokens", "512"],
        ["--compile"],
        ["--steps", "5"],
    ):
        said = ran("pretrain", "--model", model, "--data", "d", "--out", "o", *words, code=2).err
        assert words[0].partition("=")[0] in said
    assert "--optimizer.learning-rate" in ran("pretrain", "--help-all").out


def test_keys_that_a_run_does_not_read_are_unknown(ran: Ran, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('data = "nothing"\nout = "o"\nmodel = "ngram"\nbatch.tokens = 512\n')
    assert "batch.tokens" in ran("pretrain", "--config", file, code=2).err


SECTIONS = ["Data", "Train", "Use", "Look", "Serve"]


def test_the_list_of_verbs_is_in_sections_and_short(ran: Ran) -> None:
    lines = ran("--help").out.splitlines()
    titles = [line for line in lines if line in SECTIONS]
    assert titles == SECTIONS
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted({verb.split()[0] for verb in VERBS})
    assert lines[lines.index("Use") + 1].split()[0] == "predict"
    assert lines[lines.index("Serve") + 1].split()[0] == "serve"
    assert max(map(len, lines)) <= 80


def test_arguments_have_one_name(ran: Ran) -> None:
    out = ran("convert", "--help").out
    arguments = out[out.index("─ Arguments ─") : out.index("─ Parameters ─")]
    assert_names(arguments, "SRC", "DST")
    assert not re.search("--(SRC|DST)", out)
    first, second = ran("next-sentence", "--help").out.split("─ Parameters ─")
    assert_names(first, "FIRST", "SECOND")
    assert_names(second, "--model")
