"""Help, a version, a wrong key: none of them waits for torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertwright.cli.app import VERBS

HEAVY = ("torch", "numpy", "sklearn", "scipy", "transformers", "tokenizers")

PROBE = """
import contextlib, io, json, sys
out = io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
    from bertwright.cli.app import run
    code = run(sys.argv[1:])
print(json.dumps([code, sorted(m for m in sys.modules if "." not in m), out.getvalue()]))
"""


def imported_by(*words: str, cwd: Path | None = None) -> tuple[int, set[str], str]:
    """Exit code, top-level modules loaded and all that was printed, of one command line."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, timeout=60, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    code, loaded, printed = json.loads(done.stdout)
    return code, set(loaded), printed


COMMANDS = ["", *sorted({verb.split()[0] for verb in VERBS} | set(VERBS))]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy(command: str) -> None:
    code, loaded, printed = imported_by(*command.split(), "--help")
    assert code == 0, printed
    assert "Usage: bertwright" in printed
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)


@pytest.mark.parametrize("command", sorted(VERBS))
def test_a_wrong_option_loads_nothing_heavy(command: str) -> None:
    code, loaded, printed = imported_by(*command.split(), "--no-such-option", "1")
    assert code == 2, printed
    assert "unknown option --no-such-option" in printed
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)


def test_a_wrong_key_of_a_file_loads_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[optimizer]\nlearning_rat = 1e-4\n")
    code, loaded, printed = imported_by("pretrain", "--config", "run.toml", cwd=tmp_path)
    assert code == 2, printed
    assert "did you mean 'optimizer.learning_rate'?" in printed
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)


WRONG = {
    "kind": (["finetune", "clasification", "--train", "a"], 'Did you mean "classification"?'),
    "key": (["finetune", "span", "--train", "a", "--epoch", "1"], "did you mean --epochs?"),
    "value": (["finetune", "span", "--train", "a", "--warmup", "2"], "warmup is 2.0"),
    "tasks": (["finetune", "multitask", "--tasks", "tasks.toml"], "did you mean 'train'?"),
    "glue": (["glue", "--data", "a", "--tasks", "COLA2"], "no task 'COLA2' in GLUE"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_of_fine_tuning_is_told_at_once(tmp_path: Path, case: str) -> None:
    (tmp_path / "tasks.toml").write_text('[a]\nkind = "tagging"\ntrian = "b"\n')
    words, message = WRONG[case]
    code, loaded, printed = imported_by(*words, "--model", "m", "--out", "o", cwd=tmp_path)
    assert code == 2, printed
    assert message in printed
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)


def test_import_bertwright_is_quick_and_lists_its_names() -> None:
    program = (
        "import sys, bertwright; print(sorted(dir(bertwright)));"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    names, heavy = done.stdout.splitlines()
    assert "'load'" in names
    assert heavy == "[]"


def test_a_name_that_is_not_there() -> None:
    import bertwright

    with pytest.raises(AttributeError, match="has no attribute 'laod'; it has"):
        _ = bertwright.laod
