"""Commands and programs in the documents work: all are understood, those of README are run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from bertwright.cli.app import make_app, run
from docs.generator.repository import pages
from docs.generator.write import expanded
from tests.docs.blocks import blocks
from tests.house.source import ROOT

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "RELEASING.md",
    *(ROOT / page for page in pages()),
    ROOT / "examples" / "road" / "README.md",
    *sorted((ROOT / "benchmarks").rglob("README.md")),
    *sorted((ROOT / "experiments").rglob("README.md")),
]

SMALLER = {
    "--vocab-size 16384": "--vocab-size 300",
    "--config half-hour": "--config half-hour --model bert-tiny --steps 3",
    "--train reviews.tsv --out runs/reviews": "--train reviews.tsv --out runs/reviews --epochs 1",
    "vocab_size=16384": "vocab_size=300",
    'config="half-hour"': 'config="half-hour", model="bert-tiny", steps=3',
    'train="reviews.tsv"': 'train="reviews.tsv", epochs=1',
}
"""What makes README's commands quick enough for a test; nothing else of them is changed."""

SENTENCES = (
    "The {0} {1} saw the {2} near the river.",
    "It was a {0} day, and nobody {1} about the {2}.",
    "Paris is the capital of France, said the {2}.",
    "When the {0} rain came, we {1} in the {2}.",
)
WORDS = (
    ("old", "green", "quiet", "early", "heavy", "little", "golden"),
    ("waited", "walked", "stayed", "wondered", "slept"),
    ("house", "garden", "boat", "teacher", "market", "forest", "kitchen", "window", "letter"),
)


def commands(block: str) -> Iterator[list[str]]:
    """The `bertwright` commands of a block, as words."""
    for line in block.replace("\\\n", " ").splitlines():
        for part in line.split("&&"):
            words = shlex.split(part, comments=True)
            if words[:1] == ["bertwright"]:
                ends = [i for i, word in enumerate(words) if word in ("|", ">", "2>")]
                yield words[1 : min(ends, default=len(words))]


def written_commands() -> list[Any]:
    """Every command that any document shows."""
    return [
        pytest.param(words, id=f"{path.name}: {' '.join(words)}")
        for path in DOCUMENTS
        for block in blocks(path, "bash")
        for words in commands(block)
    ]


@pytest.mark.parametrize("words", written_commands())
def test_commands_are_understood(words: list[str]) -> None:
    # parse_args reads and converts every option and calls nothing
    make_app(words=words).parse_args(words, exit_on_error=False, print_error=False)


def test_readme_opens_with_two_commands() -> None:
    first, second = blocks(ROOT / "README.md", "bash")[:2]
    clone, install = first.strip().splitlines()
    assert clone.startswith("git clone ")
    assert install == "pip install -e . && bertwright quickstart"
    assert second.strip() == 'pip install -e ".[dev]" && pytest'


def test_pictures_of_readme_are_small() -> None:
    pictures = re.findall(r"\]\(([^)]+\.png)\)", (ROOT / "README.md").read_text("utf-8"))
    assert [name for name in pictures if (ROOT / name).stat().st_size >= 150_000] == []


def write_corpus(folder: Path, documents: int = 60) -> None:
    """A little English of our own, with a blank line between documents."""
    folder.mkdir()
    lines: list[str] = []
    for document in range(documents):
        for number in range(4 + document % 5):
            seed = 7 * document + 3 * number
            words = [kind[(seed + place) % len(kind)] for place, kind in enumerate(WORDS)]
            lines.append(SENTENCES[(document + number) % len(SENTENCES)].format(*words))
        lines.append("")
    (folder / "stories.txt").write_text("\n".join(lines), encoding="utf-8")


def write_labelled(folder: Path) -> None:
    """Labelled sentences, and others without labels."""
    rows = [
        f"It was a {('golden', 'heavy')[n % 2]} {WORDS[2][n % 9]}\t{('good', 'bad')[n % 2]}"
        for n in range(60)
    ]
    (folder / "reviews.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n", "utf-8")
    (folder / "new-reviews.txt").write_text("A golden garden.\nA heavy letter.\n", "utf-8")


@pytest.mark.slow
def test_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # all here: what a process of its own holds, tests/cli and tests/house/test_lazy.py hold
    used = set()
    for language in ("bash", "python"):
        folder = tmp_path / language
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_corpus(folder / "corpus")
        write_labelled(folder)
        for block in blocks(ROOT / "README.md", language):
            for old, new in SMALLER.items():
                used |= {old} if old in block else set()
                block = block.replace(old, new)
            if language == "python":
                exec(compile(block, "README.md", "exec"), {})
            for words in commands(block) if language == "bash" else ():
                if words[0] in ("quickstart", "serve"):
                    continue  # test_image.py runs the first; the second does not end
                if words[0] == "compare":
                    words = [*words, "--dry-run"]  # the whole has tests of its own
                code = run(words)
                said = "\n".join(capsys.readouterr())
                assert code == 0, f"bertwright {' '.join(words)}\n{said}"
    assert used == set(SMALLER), "README has changed; change SMALLER too"


def test_links_lead_somewhere() -> None:
    found = [
        (path, link)
        for path in DOCUMENTS
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    ]
    assert len(found) > 50
    assert [f"{p.name}: {link}" for p, link in found if not (p.parent / link).exists()] == []


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them, with what the site generates."""
    text = expanded(PurePosixPath(path.name), path.read_text("utf-8"))
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


def test_anchors_are_headings() -> None:
    found = [
        (path, link, anchor)
        for path in DOCUMENTS
        for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text("utf-8"))
    ]
    assert len(found) > 20
    missing = [
        f"{path.name}: {link}#{anchor}"
        for path, link, anchor in found
        if anchor not in anchors((path.parent / link) if link else path)
    ]
    assert missing == []


def test_the_map_shows_what_is_there() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    package = ROOT / "src" / "bertwright"
    names = re.findall(r"`((?:[a-z_]+/)?[a-z_]+\.py)`", text)
    assert names
    for name in names:
        places = (package / name, ROOT / name)
        assert any(place.exists() for place in places) or name == "__init__.py", f"no {name}"
    for folder in sorted(p.parent.name for p in package.glob("*/__init__.py")):
        assert f"`{folder}`" in text, f"docs/explanation/architecture.md does not know {folder}"
