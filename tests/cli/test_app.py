"""The command line: how options become a configuration, and how every failure ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bertwright
from bertwright.cli.app import VERBS, make_app
from bertwright.config import values
from tests.cli.conftest import Ran
from tests.cli.sample import SampleConfig, SampleOptimizer
from tests.raising import assert_names

SAMPLE = {
    "train": ("tests.cli.sample:train", "Train a sample."),
    "data build": ("tests.cli.sample:build", "Build something."),
    "data train": ("tests.cli.sample:train", "Train in a group."),
    "fail": ("tests.cli.sample:fail", "Fail."),
}
"""Verbs over the small configuration; "data" is a group and a key of the configuration too."""

ROOT = Path(__file__).parents[2]


@pytest.fixture
def line(ran: Ran) -> Ran:
    """Run one command line of the sample's verbs."""
    return lambda *words, code=0: ran(*words, code=code, verbs=SAMPLE)


def resolved(printed: Any) -> Any:
    """The configuration that the sample verb was called with."""
    assert printed.err == ""
    return json.loads(printed.out)


def test_a_warning_of_ours_is_one_line(line: Ran) -> None:
    printed = line("fail", "warn", code=4)
    assert printed.out == ""
    assert printed.err.startswith("warning: step-2 is damaged\n")
    assert "RuntimeWarning: of another package" in printed.err


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ("--optimizer.learning-rate 1e-4", "optimizer.learning_rate", 1e-4),
        ("--optimizer.learning_rate=1e-4", "optimizer.learning_rate", 1e-4),
        ("--optimizer.decay", "optimizer.decay", True),
        ("--optimizer.no-decay", "optimizer.decay", False),
        ("--optimizer.decay=false", "optimizer.decay", False),
        ("--optimizer.name none", "optimizer.name", None),
        ("--optimizer.skip 1 --optimizer.skip=-2", "optimizer.skip", [1, -2]),
        ("--optimizer.betas 0.8 0.9", "optimizer.betas", [0.8, 0.9]),
        ("--resume", "resume", True),
        ("--no-resume", "resume", False),
        ("--resume=false", "resume", False),
        ("--steps 7", "steps", 7),
        ("--steps none", "steps", None),
        ("--model=bert-base", "model", "bert-base"),
        ("--data shards", "data", "shards"),
    ],
)
def test_keys(line: Ran, words: str, key: str, value: object) -> None:
    assert values.flatten(resolved(line("train", *words.split())))[key] == value


def test_a_tilde_in_the_value_of_an_option_is_the_home_folder(
    line: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "run.toml").write_text('data = "~/shards"\n[optimizer]\nname = "a=~/b"\n')
    home = str(tmp_path)
    config = resolved(line("train", "--config=~/run.toml", "--second.name=~/c"))
    assert (config["data"], config["second"]["name"]) == (f"{home}/shards", f"{home}/c")
    assert config["optimizer"]["name"] == f"a={home}/b"
    assert values.at_home("~root/x and ~/y") == "~root/x and ~/y"
    out = json.loads(line("data", "build", "--out=~/b", "~/a text").out)
    assert (out["out"], out["corpus"]) == (f"{home}/b", ["~/a text"])


@pytest.mark.parametrize("verb", ["train", "data train"])
def test_the_command_line_goes_over_the_file(line: Ran, tmp_path: Path, verb: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'data = "shards"\nmodel = "bert-base"\nsteps = "none"\n'
        "[optimizer]\nlearning_rate = 2\nbetas = [0.1, 0.2]\n"
    )
    run_of = resolved(line(*verb.split(), "--optimizer.learning-rate=5", "--config", str(file)))
    optimizer = SampleOptimizer(learning_rate=5.0, betas=(0.1, 0.2))
    expected = SampleConfig(data="shards", model="bert-base", optimizer=optimizer)
    assert run_of == values.to_dict(expected)


@pytest.mark.parametrize(
    "config",
    [
        SampleConfig(),
        SampleConfig(
            data="none of it",
            optimizer=SampleOptimizer(1e-05, False, (-1.0, 0.5), None, (3, -4)),
            second=SampleOptimizer(name='a "quoted" [name] = 東京'),
        ),
    ],
)
def test_a_saved_configuration_runs_again(line: Ran, tmp_path: Path, config: SampleConfig) -> None:
    file = tmp_path / "config.toml"
    file.write_text(values.to_toml(config), encoding="utf-8")
    assert resolved(line("train", "--config", str(file))) == values.to_dict(config)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (
            "[optimizer]\nlearning_rat = 3",
            "'optimizer.learning_rat' {file} 'optimizer.learning_rate'",
        ),
        ('[steps]\nx = "3"', "'steps.x' {file}"),
        ("[optimizer]\nlearning_rate = -3", "learning_rate -3.0 0"),
        ("steps =", "{file} TOML"),
    ],
)
def test_a_wrong_file(line: Ran, tmp_path: Path, content: str, names: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content)
    printed = line("train", "--config", file, code=2)
    assert printed.out == ""
    assert_names(printed.err, *names.format(file=file).split())


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (
            "train --optimizer.learning_rat 3",
            ["--optimizer.learning_rat;", "--optimizer.learning-rate", "bertwright train --help"],
        ),
        ("train --learning-rate 3", ["--learning-rate", "--optimizer.learning-rate"]),
        ("train --step 3", ["--step;", "--steps"]),
        ("--verson", ["--verson", "--version"]),
        ("--hlep", ["--hlep", "--help"]),
        ("train --steps x", ["--steps", '"x"', "int"]),
        ("train --steps 1.5", ["--steps", "1.5", "whole number"]),
        ("data build a --out b --workers .5", ["--workers", ".5", "whole number"]),
        ("train --model bert-mino", ["bert-mino", '"bert-mini"']),
        ("train --optimizer.learning-rate -1", ["learning_rate", "-1.0", "0"]),
        ("train --config", ["--config", "argument"]),
        ("train --config nowhere.toml", ["configuration file", "nowhere.toml"]),
        ("train extra", ["'extra'", "bertwright train --help"]),
        ("data build a", ["--out (Folder to write.)", "bertwright data build --help"]),
        ("data build a --out b --jsn", ["--jsn", "--json"]),
        ("train --steps x --rezume", ["--rezume", "--resume"]),
        ("data bild", ['"bild"', '"build"']),
        ("trian", ['"trian"', '"train"']),
    ],
)
def test_wrong_usage(line: Ran, words: str, names: list[str]) -> None:
    printed = line(*words.split(), code=2)
    assert printed.out == ""
    assert_names(printed.err, *names)
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("code", 4, ""),
        ("run", 1, "loss is not finite at step 3"),
        ("config", 2, "no such model"),
        ("extra", 3, 'pip install "bertwright[zst]"'),
        ("data", 4, "no documents"),
        ("integrity", 5, "shard cut"),
        ("interrupt", 130, "interrupted"),
        ("disk", 1, "No space left on device: '/out'"),
        ("bug", 1, "ZeroDivisionError"),
    ],
)
def test_exit_codes(line: Ran, how: str, code: int, message: str) -> None:
    printed = line("fail", how, code=code)
    assert printed.out == ""
    assert message in printed.err
    assert "Traceback" not in printed.err


def test_of_the_processes_of_torchrun_one_prints_an_error(
    line: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is that of each; another error is printed by whom it meets."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = []
    for rank, how, code in ((0, "data", 4), (1, "data", 4), (1, "integrity", 5)):
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / str(rank) / "error.json"))
        said.append(line("fail", how, code=code).err)
    assert said[1] == ""
    assert "no documents" in said[0]
    assert "shard cut" in said[2]
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "gone" / "1" / "error.json"))
    assert line("fail", "data", code=4).err == said[0]


def test_debug_shows_where(line: Ran) -> None:
    with pytest.raises(ZeroDivisionError):
        line("fail", "bug", "--debug")


def test_after_two_dashes_everything_is_text(line: Ran) -> None:
    printed = line("data", "build", "--out", "b", "--", "--debug", "--no-a.b")
    assert json.loads(printed.out)["corpus"] == ["--debug", "--no-a.b"]


@pytest.mark.parametrize("words", ["- --out -", "--out - -", "--out=- -", "--out - -- -"])
def test_a_hyphen_is_a_word(line: Ran, words: str) -> None:
    found = resolved(line("data", "build", *words.split()))
    assert found == {"corpus": ["-"], "out": "-", "workers": 1, "json": False}
    assert "'-'" in line("train", "-", code=2).err


def test_help_explains_every_key(line: Ran) -> None:
    out = line("train", "--help").out
    for text in ("--optimizer.learning-rate", "The highest learning rate.", "default: 0.001"):
        assert text in out
    assert "How fast the moments forget. [default:" in re.sub(r"[\s│]+", " ", out)
    for text in ("Train a sample.", "A second paragraph about [MASK]."):
        assert text in out


def test_an_empty_list_is_no_default(ran: Ran) -> None:
    out = ran("glue", "--help").out
    assert "--tasks" in out
    assert "()" not in out


@pytest.mark.parametrize("verb", ["data check x", "finetune classification"])
def test_a_recipe_is_of_pretrain(verb: str, ran: Ran) -> None:
    printed = ran(*verb.split(), "--config", "half-hour", code=2)
    assert_names(printed.err, "configuration file", "half-hour")


@pytest.mark.parametrize("command", VERBS)
def test_every_verb_is_there_and_explains_its_options(command: str) -> None:
    app = make_app(words=command.split())
    for name in command.split():
        app = app[name]
    arguments = app.assemble_argument_collection(parse_docstring=True)
    unexplained = [a.name for a in arguments if a.show and a.parse and not a.parameter.help]
    assert unexplained == [], f"{command} says nothing of these options"


def test_a_misspelt_variable_does_not_leave_the_door_open(
    monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    monkeypatch.setenv("BERTWRIGHT_PORT_80_TCP_ADDR", "10.0.0.1")  # as Kubernetes makes
    monkeypatch.setenv("BERTWRIGHT_API_KEY", "keys.txt")
    said = ran("serve", "--model", "x", code=2).err
    assert_names(said, "BERTWRIGHT_API_KEY ", "BERTWRIGHT_API_KEYS")


def test_version_and_module_run(command_line: Callable[..., Any]) -> None:
    done = command_line("--version")
    said = f"bertwright {bertwright.__version__}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")


def test_a_closed_pipe_is_quiet() -> None:
    program = (
        "import sys; from bertwright.cli.app import run;"
        "verbs = {'build': ('tests.cli.sample:build', 'Build.')};"
        "sys.exit(run(['build', 'a', '--out', 'o', '--json'], verbs))"
    )
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "$0" | true; echo "${{PIPESTATUS[0]}}"', program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    # whoever is quicker: the object may be out before the reader has gone
    assert done.stdout.strip() in ("0", "141")
    assert done.stderr == ""


def test_no_color(command_line: Callable[..., Any]) -> None:
    done = command_line("nothing", env={**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert done.returncode == 2
    assert "\x1b[3" not in done.stderr


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
def test_signals_unwind(tmp_path: Path, number: signal.Signals, code: int, said: str) -> None:
    program = (
        "import sys; from bertwright.cli.app import run;"
        "sys.exit(run(['wait', sys.argv[1]], {'wait': ('tests.cli.sample:wait', 'Wait.')}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=600)
    assert process.returncode == code
    assert err == f"bertwright: {said}\n"
    assert (tmp_path / "tidied").exists()
