"""What is published beside the code: one tagline, addresses, the citation, forms of issues."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import bertwright
from bertwright.cli.app import make_app
from tests.house.source import PACKAGE, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION: Any = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
FORMS = [path for path in TEMPLATES if path.stem != "config"]


def test_there_is_one_tagline() -> None:
    tagline = PROJECT["description"]
    assert re.fullmatch(r"[^.]+\.", tagline), "one sentence"
    _, first, *_ = (ROOT / "README.md").read_text("utf-8").split("\n\n")
    assert first == tagline
    assert CITATION["abstract"] == tagline
    assert make_app().help == tagline
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    assert str(ast.get_docstring(tree)).partition("\n")[0] == tagline


def test_the_version_is_the_same_everywhere() -> None:
    assert CITATION["version"] == bertwright.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"## [{bertwright.__version__}]" in changelog


def test_addresses_are_in_one_place() -> None:
    addresses = PROJECT["urls"]
    assert {"Homepage", "Documentation", "Repository", "Issues", "Changelog"} == set(addresses)
    repository = addresses["Repository"]
    assert all(address.startswith(repository) for address in addresses.values())
    assert CITATION["repository-code"] == repository
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*")]
    texts = {path: path.read_text("utf-8") for path in documents if path.is_file()}
    assert [str(path) for path, text in texts.items() if repository in text] == []


def test_the_citation_has_what_its_format_requires() -> None:
    # the required keys of version 1.2.0, of the file and of a reference
    assert {"cff-version", "message", "title", "authors"} <= set(CITATION)
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    assert CITATION["license"] == PROJECT["license"]
    assert [author["name"] for author in CITATION["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
    for reference in CITATION["references"]:
        assert {"type", "title", "authors"} <= set(reference)
        assert all({"given-names", "family-names"} == set(each) for each in reference["authors"])


FIELDS = {"textarea", "input", "dropdown", "checkboxes"}
"""What a form of GitHub may ask with; `markdown` only shows a text."""


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_of_issues_can_be_filled_in(path: Path) -> None:
    form: Any = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", "description", "body"} <= set(form) <= {"name", "description", "body", "labels"}
    asked = [item for item in form["body"] if item["type"] != "markdown"]
    assert {item["type"] for item in asked} <= FIELDS
    names = [item["id"] for item in asked]
    assert len(names) == len(set(names))
    assert all(item["attributes"]["label"] for item in asked)
    assert any(item.get("validations", {}).get("required") for item in asked)


def test_forms_ask_for_the_command_and_the_versions() -> None:
    texts = {path.stem: path.read_text("utf-8") for path in FORMS}
    assert set(texts) == {"bug", "feature", "question"}
    assert all("id: command" in text for text in texts.values())
    for name, command in (("bug", "bertwright info"), ("question", "bertwright --version")):
        assert f"`{command}`" in texts[name]
        words = shlex.split(command)[1:]
        make_app(words=words).parse_args(words, exit_on_error=False, print_error=False)
