"""Help, a version, a wrong key: none of them waits for torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bertwright.cli.app import VERBS

HEAVY = ("torch", "numpy", "sklearn", "scipy", "transformers", "tokenizers")

COMMANDS = ["", *sorted({verb.split()[0] for verb in VERBS} | set(VERBS))]
HELP = {f"help of {each or 'all'}": [*each.split(), "--help"] for each in COMMANDS}
OPTION = {f"option of {each}": [*each.split(), "--no-such-option", "1"] for each in sorted(VERBS)}
MODEL = ["--model", "m", "--out", "o"]
WRONG = {
    "key of a file": (["pretrain", "--config", "run.toml"], ["'optimizer.learning_rate'"]),
    "recipe": (
        ["pretrain", "--config", "bert-base-papr", "--data", "d", "--out", "o"],
        ["bert-base-papr", "bert-base-paper"],
    ),
    "kind": (["finetune", "clasification", "--train", "a", *MODEL], ['"classification"']),
    "key": (["finetune", "span", "--train", "a", "--epoch", "1", *MODEL], ["--epochs"]),
    "value": (["finetune", "span", "--train", "a", "--warmup", "2", *MODEL], ["warmup", "2.0"]),
    "tasks": (["finetune", "multitask", "--tasks", "tasks.toml", *MODEL], ["'train'"]),
    "several options": (["embed"], ["--input"]),
    "files of a task": (["finetune", "span"], ["--model", "--train", "--out"]),
    "model and data": (["evaluate"], ["--model", "--data"]),
    "glue": (["glue", "--data", "a", "--tasks", "COLA2", *MODEL], ["'COLA2'"]),
}
"""Command lines, and what their errors name."""

HERE = ["--model", "model"]
"""An existing folder."""
TRAIN = ["finetune", "classification", "--out", "o"]
MISSING = {
    "folder of a model": (["embed", "--model", "no", "--input", "a.csv", "--out", "v.npy"], "no"),
    "no model": (["fill", "a", "--model", "empty"], "config.json"),
    "model of a mixture": (["perplexity", "a.csv", *HERE, "--model", "no"], "no"),
    "translator": (["translate", "a", "--model", "no"], "no"),
    "language model": (["generate", "a", "--model", "no"], "no"),
    "word vectors": (["words", "nearest", "a", "--model", "no"], "no"),
    "file of a test": (["words", "evaluate", "no.txt", "--model", "a.csv"], "no.txt"),
    "input": (["embed", *HERE, "--input", "no.txt", "--out", "v.npy"], "no.txt"),
    "column": (["embed", *HERE, "--input", "a.csv", "--text", "b", "--out", "v.npy"], "'b'"),
    "corpus": (["similar", "a", *HERE, "--corpus", "no.txt"], "no.txt"),
    "pairs": (["mine", *HERE, "--pairs", "a.csv", "--out", "b"], "anchor"),
    "retrieval": (["evaluate-search", *HERE, "--data", "a.csv"], "corpus.jsonl"),
    "pairs to evaluate": (["evaluate-vectors", *HERE, "--data", "no.txt"], "no.txt"),
    "text": (["perplexity", "no.txt", *HERE], "no.txt"),
    "column of minimal pairs": (["perplexity", *HERE, "--pairs", "p.csv", "--by", "b"], "--by"),
    "prompts": (["generate", *HERE, "--input", "no.txt"], "no.txt"),
    "sentences": (["translate", *HERE, "--input", "no.txt"], "no.txt"),
    "inputs": (["predict", *HERE, "--input", "no.txt"], "no.txt"),
    "labels": (["evaluate", *HERE, "--data", "no.txt"], "no.txt"),
    "column of labels": (["evaluate", *HERE, "--data", "a.csv", "--label", "b"], "'b'"),
    "column of inputs": (["predict", *HERE, "--input", "a.csv", "--text", "b"], "'b'"),
    "file to train on": ([*TRAIN, *HERE, "--train", "no.csv"], "no.csv"),
    "file to choose by": ([*TRAIN, *HERE, "--train", "a.csv", "--dev", "no.csv"], "no.csv"),
    "model to train": ([*TRAIN, "--model", "no", "--train", "a.csv"], "no"),
    "column to train on": ([*TRAIN, *HERE, "--train", "a.csv", "--label", "b"], "'b'"),
}
"""Paths and columns that are missing, and what the message names."""

PROBE = """
import contextlib, io, json, sys
from bertwright.cli.app import run
found, before = {}, set()
for name, words in json.loads(sys.argv[1]).items():
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = run(words)
    found[name] = [code, out.getvalue(), sorted(set(sys.modules) - before)]
    before = set(sys.modules)
print(json.dumps(found))
"""
"""All in one process: what a command is the first to load is told of it."""

Outcomes = dict[str, tuple[int, str, list[str]]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Exit code, all that was printed and the modules loaded, of every command line here."""
    folder = tmp_path_factory.mktemp("lazy")
    (folder / "run.toml").write_text("[optimizer]\nlearning_rat = 1e-4\n")
    (folder / "tasks.toml").write_text('[a]\nkind = "tagging"\ntrian = "b"\n')
    (folder / "a.csv").write_text("x,y\n1,2\n")
    (folder / "p.csv").write_text("good,bad\na,b\n")
    (folder / "empty").mkdir()
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    wrong = {name: words for name, (words, _) in (WRONG | MISSING).items()}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps({**HELP, **OPTION, **wrong})],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    found: Outcomes = json.loads(done.stdout)
    return found


def ends(outcomes: Outcomes, name: str, code: int, *names: str) -> None:
    """The command ends with this code, prints these names, and has loaded nothing heavy."""
    got, printed, loaded = outcomes[name]
    assert got == code, printed
    for each in names:
        assert each in printed
    assert set(loaded).isdisjoint(HEAVY), set(loaded) & set(HEAVY)


@pytest.mark.parametrize("name", HELP)
def test_help_loads_nothing_heavy(outcomes: Outcomes, name: str) -> None:
    ends(outcomes, name, 0, "Usage: bertwright")


@pytest.mark.parametrize("name", OPTION)
def test_a_wrong_option_loads_nothing_heavy(outcomes: Outcomes, name: str) -> None:
    ends(outcomes, name, 2, "--no-such-option")


@pytest.mark.parametrize("name", WRONG)
def test_an_error_of_a_wrong_value_loads_nothing_heavy(outcomes: Outcomes, name: str) -> None:
    ends(outcomes, name, 2, *WRONG[name][1])


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_told_without_torch(outcomes: Outcomes, name: str) -> None:
    code, printed, loaded = outcomes[name]
    assert code == 4, printed
    assert MISSING[name][1] in printed
    assert "torch" not in loaded


def test_all_missing_options_are_named_at_once(outcomes: Outcomes) -> None:
    code, printed, _ = outcomes["several options"]
    assert code == 2
    assert all(option in printed for option in ("--model", "--input", "--out"))


def test_import_bertwright_is_quick_and_lists_its_names() -> None:
    program = (
        "import sys, bertwright; print(sorted(dir(bertwright)));"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=True
    )
    names, heavy = done.stdout.splitlines()
    assert "'load'" in names
    assert heavy == "[]"


def test_a_name_that_is_not_there() -> None:
    import bertwright

    with pytest.raises(AttributeError, match=r"laod.*load"):
        _ = bertwright.laod
