"""The pages of the site that are copies: those of `docs/`, and the files that they link to.

A link from a page to `experiments/`, `benchmarks/` or `src/` is relative, so that it works where
the repository is read. The site has a page for each such file below `repository/`: Markdown as a
page, a notebook with its outputs, code as a highlighted file, a folder as the list of its files.
Links to other files, such as results, stay links to the files, which Sphinx copies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from docs.generator import notebook

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs"
COPIES = "repository"
"""The folder of the site with the pages of files outside `docs/`."""
LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".yaml": "yaml", ".service": "ini"}
"""The suffixes of files that are shown as code."""
NOTEBOOK = ".ipynb"
_LINK = re.compile(r"(?<=\]\()([^()#:\s]+)(#[^()\s]*)?(?=\))")
_FENCE = re.compile(r" *```")


def pages() -> Iterator[PurePosixPath]:
    """Yield the pages of `docs/`, as paths in the repository."""
    for path in sorted((ROOT / DOCS).rglob("*.md")):
        inside = PurePosixPath(path.relative_to(ROOT).as_posix())
        if not any(part.startswith("_") for part in inside.parts):
            yield inside


def page_of(path: PurePosixPath) -> PurePosixPath | None:
    """Return the page of the site that shows a file or folder of the repository; None if the site
    only has a copy of the file.
    """
    if path.parts[0] == DOCS:
        return path.relative_to(DOCS) if path.suffix == ".md" else None
    if path.suffix == ".md":
        return COPIES / path
    if path.suffix in (*LANGUAGES, NOTEBOOK) or (ROOT / path).is_dir():
        return COPIES / path.with_name(f"{path.name}.md")
    return None


def write_pages(target: Path, expanded: Callable[[PurePosixPath, str], str]) -> None:
    """Write the pages of `docs/`, each through `expanded`, and those of all files that are linked
    to, directly or by such a file.
    """
    waiting = list(pages())
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        page = page_of(path)
        if page is None:
            continue
        text, linked = text_of(path, page, target)
        waiting += linked - seen
        seen |= linked
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        text = expanded(page, text) if path.parts[0] == DOCS else text
        (target / page).write_text(text, encoding="utf-8")


def text_of(
    path: PurePosixPath, page: PurePosixPath, target: Path
) -> tuple[str, set[PurePosixPath]]:
    """Return the Markdown of a page that shows a file or folder, and the paths that it links to."""
    file = ROOT / path
    if path.parts[0] == DOCS:
        return with_links(file.read_text("utf-8"), path.parent, page, target)
    if path.suffix == ".md":
        text, linked = with_links(file.read_text("utf-8"), path.parent, page, target)
        return f"---\norphan: true\n---\n\n{text}", linked
    if path.suffix == NOTEBOOK:
        text, linked = with_links(notebook.markdown(file), path.parent, page, target)
        extensions = "myst:\n  enable_extensions: [deflist, dollarmath]\n"
        return f"---\norphan: true\n{extensions}---\n\n{text}", linked
    head = f"---\norphan: true\nnosearch: true\n---\n\n# {path}\n\n"
    if not file.is_dir():
        return f"{head}`````{LANGUAGES[path.suffix]}\n{file.read_text('utf-8')}`````\n", set()
    names = sorted(each.name for each in file.iterdir() if each.is_file())
    listed = "\n".join(f"- [{name}]({name})" for name in names)
    text, linked = with_links(listed, path, page, target)
    return head + text, linked


def with_links(
    text: str, folder: PurePosixPath, page: PurePosixPath, target: Path
) -> tuple[str, set[PurePosixPath]]:
    """Return the text of a file in a folder of the repository with its links as a page of the site
    has them, and the paths that it links to.

    `target` is the folder of all pages of the site. Lines of code stay as they are.
    """
    linked = set()

    def replaced(found: re.Match[str]) -> str:
        path = PurePosixPath(os.path.normpath(folder / found[1]))
        if path.parts[0] == ".." or not (ROOT / path).exists():
            return found[0]  # an error of the text, which Sphinx reports
        linked.add(path)
        to = page_of(path)
        if to is None:
            return os.path.relpath(ROOT / path, target / page.parent)
        return os.path.relpath(to, page.parent) + (found[2] or "")

    lines, in_code = [], False
    for line in text.splitlines():
        in_code ^= bool(_FENCE.match(line))
        if not in_code:
            line = _LINK.sub(replaced, line)
            line = re.sub(r"^%", r"\\%", line)  # a line that MyST would read as a comment
        lines.append(line)
    return "\n".join(lines) + "\n", linked
