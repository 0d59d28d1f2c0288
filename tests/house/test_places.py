"""Nothing in the tree knows the machine it was written on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.source import ROOT

PLACES = re.compile(r"(?<![\w.~:/$}-])/(?:home|root|Users|work|workspace|opt|mnt|tmp|scratch)/\w")
SECRETS = re.compile(r"\b(?:hf_[A-Za-z]{30,}|gh[pousr]_\w{30,}|AKIA[A-Z0-9]{16}|sk-\w{32,})\b")
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".cff",
    ".txt",
    ".json",
    ".jsonl",
    ".yml",
    ".yaml",
    ".sh",
    ".html",
    ".csv",
    "",
}


def tracked() -> list[Path]:
    """The files of the repository, or of the folder where there is no git."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        folders = ("src", "tests", "docs", "benchmarks", "experiments")
        return [path for f in folders for path in (ROOT / f).rglob("*") if path.is_file()]
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def lines() -> list[tuple[str, str]]:
    """Every line of text with its place."""
    found: list[tuple[str, str]] = []
    for path in tracked():
        if path.suffix not in TEXT or path.stat().st_size > 2_000_000:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        name = path.relative_to(ROOT)
        found.extend((f"{name}:{n}", line) for n, line in enumerate(text.splitlines(), 1))
    return found


@pytest.mark.parametrize("pattern", [PLACES, SECRETS], ids=["places", "secrets"])
def test_no_line_has(pattern: re.Pattern[str]) -> None:
    assert [(place, line.strip()) for place, line in lines() if pattern.search(line)] == []


def test_no_file_is_huge() -> None:
    assert [str(p.relative_to(ROOT)) for p in tracked() if p.stat().st_size > 5_000_000] == []


def test_the_patterns_find_what_they_are_for() -> None:
    assert PLACES.search("open('/" + "home/ann/corpus.txt')")
    assert PLACES.search("see /" + "tmp/x")
    assert not PLACES.search("https://host/home/x and ./tmp/x and src/opt/y")
