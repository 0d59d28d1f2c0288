"""Write the source of the site: a folder of Markdown that Sphinx builds.

    python -m docs.generator.write docs/_build/source

The folder has the pages of `docs/`, the files that they link to (`repository.py`), and the
reference, which is made of the code. A page of the reference has a comment at the place of what is
generated, such as `<!-- generated: exit_codes -->`.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from docs.generator import command_line, formats, python_names, repository, rest

INDEX = PurePosixPath("index.md")
"""The page whose sections are the parts of the site."""
GENERATED: dict[str, Callable[[], str]] = {
    "verbs": command_line.list_of_verbs,
    "configuration": command_line.configuration,
    "python": python_names.page,
    "routes": rest.page,
    "exit_codes": formats.exit_codes,
    "corpora": formats.corpora,
    "labelled_files": formats.labelled_files,
    "models": formats.models,
}
"""The name in a comment of a page -> what takes its place."""


def write(target: Path) -> None:
    """Write the source of the whole site to a folder, which is emptied first."""
    shutil.rmtree(target, ignore_errors=True)
    repository.write_pages(target, expanded)
    for name, text in command_line.pages().items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")


def expanded(page: PurePosixPath, text: str) -> str:
    """Return the text of a page with its comments replaced by what is generated."""
    text = re.sub(r"<!-- generated: (\w+) -->", lambda found: GENERATED[found[1]](), text)
    return with_contents(text) if page == INDEX else text


def with_contents(text: str) -> str:
    """Return the first page with a table of contents for the sidebar below each of its sections:
    the pages to which the list of the section links.
    """
    start, *sections = re.split(r"^## ", text, flags=re.M)
    for number, section in enumerate(sections):
        links = re.findall(r"^- \[[^]]+\]\(([^)#]+)\.md\)", section, re.M)
        contents = ["```{toctree}", ":hidden:", f":caption: {section.splitlines()[0]}", "", *links]
        sections[number] = "\n".join([section, *contents, "```", ""])
    return start + "".join(f"\n## {section}" for section in sections)


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve())
