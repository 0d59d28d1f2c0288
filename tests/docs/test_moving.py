"""The pages on moving from other libraries and on messages say what is there."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from bertwright.cli.app import run
from tests.docs.blocks import blocks
from tests.house.source import ROOT

MOVING = ROOT / "docs" / "howto" / "moving.md"
TROUBLE = ROOT / "docs" / "howto" / "troubleshooting.md"
PROGRAMS = blocks(MOVING, "python")
OURS = [program for program in PROGRAMS if "import bertwright" in program]
THEIRS = [program for program in PROGRAMS if program not in OURS]


@pytest.mark.parametrize("program", THEIRS, ids=lambda program: program.split()[1])
def test_what_the_other_side_imports_is_there(program: str) -> None:
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom):
            package = str(node.module).partition(".")[0]
            if find_spec(package) is None:
                pytest.skip(f"{package} is not installed")
            module = import_module(str(node.module))
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


@pytest.mark.slow
def test_our_programs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n\n".join(f"the film of house {n} was dull\nthe train was late" for n in range(80))
    Path("corpus.txt").write_text(text)
    rows = "".join(f"a {word} film,{label}\n" for word, label in 6 * [("fine", "y"), ("dull", "n")])
    for name in ("train", "dev"):
        Path(f"{name}.csv").write_text(f"text,label\n{rows}")
    small = "--model bert-tiny --steps 3 --out runs/mine"
    for line in (
        "tokenizer train corpus.txt --vocab-size 120 --out tokenizer",
        "data build corpus.txt --tokenizer tokenizer --out pieces",
        f"pretrain --data pieces {small}",
        "convert runs/mine minilm --to sentence-transformers --pooling mean",
    ):
        assert run(line.split()) == 0, capsys.readouterr().err
    names: dict[str, Any] = {}
    for program in OURS:
        exec(compile(program, "docs/howto/moving.md", "exec"), names)
    assert names["corpus"].shape == (2, names["model"].spec.width)


def strings(path: Path) -> str:
    """The strings of a file, each with its parts joined, and what is filled in left out."""
    if path.suffix == ".j2":
        return path.read_text("utf-8")
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
            found.append("\n".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return "\n".join(found)


SOURCES = [
    strings(path)
    for suffix in ("*.py", "*.txt.j2")
    for path in sorted((ROOT / "src" / "bertwright").rglob(suffix))
]


@pytest.mark.parametrize("message", [block.strip() for block in blocks(TROUBLE, "text")])
def test_messages_are_those_of_the_program(message: str) -> None:
    parts = [part.strip() for part in message.split("...") if len(part.strip()) > 2]
    assert any(all(part in source for part in parts) for source in SOURCES)
