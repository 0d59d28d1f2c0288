"""Rewrite keys that have another name, are gone or are new, in runs that earlier code wrote.

    python tests/formats/rename_keys.py FOLDER ...

A folder holds `runs` and `expected`, as `make_runs.py` writes them. `net.sh` applies the table to a
copy of the runs of its commit. The commit that renames a key of a file adds a row to `CHANGES`:

    Renamed("config.toml", "validation/share", "validation/fraction"),
    Renamed("task.json", "tasks/*/head/size", "tasks/*/head/hidden_size"),
    Removed("metrics.jsonl", "memory_gb"),
    Added("bert*/config.toml", "architecture/pooler", "none"),
    Added("shards/*/MANIFEST.json", "report/zero_bytes", 0),

A row holds for all files of a name, or for those of a run (`bert/config.toml`, with wildcards), and
for what `expected` holds of them: its `config`, its `end/records` and its `end/results`. A use is
named as a file is (`inspect`, `bert/inspect`). `/` goes into a table or a list; `*` is any key and
any element. Rows are applied in order, and a second time change nothing. When the runs are made
from a later commit, rows that were in its table may go.

Only keys are rewritten. No value changes, files of tensors are refused, and so are new keys with
numbers anywhere but in configurations and manifests: a figure is computed. Sizes and hashes of
rewritten files are renewed in the `MANIFEST.json` that lists them, and the hash of a manifest of
shards in the `environment.json` of the runs on them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import tomli_w

Json = Any
MANIFEST, ENVIRONMENT = "MANIFEST.json", "environment.json"
CONFIGURATIONS = ("config.toml", "config.json", "task.json", MANIFEST)
"""Files that hold nothing a model computes: only they may have a new key with a number."""
STYLES: tuple[Callable[[Json], str], ...] = (
    lambda x: json.dumps(x, indent=1) + "\n",
    lambda x: json.dumps(x, indent=2) + "\n",
    lambda x: json.dumps(x, indent=2, ensure_ascii=False),
    lambda x: json.dumps(x) + "\n",
    lambda x: "".join(json.dumps(each) + "\n" for each in x),  # .jsonl
    tomli_w.dumps,
    lambda x: "{\n" + ",\n".join(f" {json.dumps(k)}: {text_of(v)}" for k, v in x.items()) + "\n}\n",
)
"""The ways in which the files are written; the last is that of `expected`."""


@dataclass(frozen=True)
class Renamed:
    """A key stands under another name, or in another table."""

    file: str
    key: str
    to: str

    def apply(self, content: Json) -> None:
        """Move the value; it keeps its place in a table in which it stays."""
        old, new = self.key.split("/"), self.to.split("/")
        start = max((i + 1 for i, each in enumerate(old) if each == "*"), default=0)
        if old[:start] != new[:start] or "*" in new[start:] or start == len(old):
            raise SystemExit(f"{self}: both keys need the same part up to the last *, and a name")
        for root in tables(content, old[:start]):
            for table in tables(root, old[start:-1]):
                if not isinstance(table, dict) or old[-1] not in table:
                    continue
                into = root
                for name in new[start:-1]:
                    into = into.setdefault(name, {})
                if new[-1] in into:
                    raise SystemExit(f"{self}: there are values under both keys")
                if into is table:
                    names = {old[-1]: new[-1]}
                    renamed = {names.get(key, key): value for key, value in table.items()}
                    table.clear()
                    table.update(renamed)
                else:
                    into[new[-1]] = table.pop(old[-1])


@dataclass(frozen=True)
class Removed:
    """A key is not written any more."""

    file: str
    key: str

    def apply(self, content: Json) -> None:
        """Take the key out."""
        *path, last = self.key.split("/")
        for table in tables(content, path):
            if isinstance(table, dict):
                table.pop(last, None)


@dataclass(frozen=True)
class Added:
    """A key that is new, with the value under which a run or a corpus is as it was."""

    file: str
    key: str
    value: Json

    def apply(self, content: Json) -> None:
        """Put the key in, where its table is and it is not."""
        *path, last = self.key.split("/")
        for table in tables(content, path):
            if isinstance(table, dict):
                table.setdefault(last, self.value)


Change = Renamed | Removed | Added

CHANGES: tuple[Change, ...] = (
    # labelled files have no option of their own for tags and answers that do not fit
    *(
        Removed(file, f"{table}{key}")
        for key in ("bad_tags", "wrong_answers")
        for file, table in (
            ("config.toml", ""),
            ("tasks.toml", "*/"),
            ("task.json", "tasks/*/options/"),
            ("results.json", "task/options/"),
            ("results.json", "settings/"),
            ("results.json", "tasks/*/task/options/"),
            ("results.json", "tasks/*/settings/"),
        )
    ),
)
"""Changes since the commit that the runs are made from, in the order in which they came."""


def tables(content: Json, path: Sequence[str]) -> Iterator[Json]:
    """The values at a path, in which `*` is any key or any element."""
    if not path:
        yield content
    elif path[0] == "*":
        inside = content.values() if isinstance(content, dict) else content
        for each in inside if isinstance(content, dict | list) else ():
            yield from tables(each, path[1:])
    elif isinstance(content, dict) and path[0] in content:
        yield from tables(content[path[0]], path[1:])


def refuse_other_than_keys(changes: Iterable[Change]) -> None:
    """Check that no row would change a weight or invent a figure.

    Raises:
        SystemExit: a row would.
    """
    for change in changes:
        name = PurePath(change.file).name
        if PurePath(name).suffix not in ("", ".toml", ".json", ".jsonl"):
            raise SystemExit(f"{change}: only keys of .toml, .json and .jsonl files are rewritten")
        if isinstance(change, Added) and name not in CONFIGURATIONS:
            value = change.value
            if not (value is None or isinstance(value, bool | str) or value in ([], {})):
                allowed = ", ".join(CONFIGURATIONS)
                raise SystemExit(f"{change}: numbers are added to {allowed}, not to figures")


def changed(content: Json, path: PurePath, changes: Iterable[Change]) -> Json:
    """A copy of the content of a file of `runs`, with the rows that hold for its path applied."""
    content = json.loads(json.dumps(content))
    for change in changes:
        if path.match(change.file):
            change.apply(content)
    return content


def text_of(value: Json) -> str:
    """JSON in one line, with letters as they are."""
    return json.dumps(value, ensure_ascii=False)


def of_run(path: Path, inside: PurePath, changes: Iterable[Change]) -> str | None:
    """The new text of a file of `runs`; None if it stays."""
    changes = [each for each in changes if inside.match(each.file)]
    if not changes:
        return None
    text = path.read_text("utf-8")
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in text.splitlines()]
        return rewritten(path, text, lines, [changed(each, inside, changes) for each in lines])
    content = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return rewritten(path, text, content, changed(content, inside, changes))


def of_expected(path: Path, changes: Iterable[Change]) -> str | None:
    """The new text of what is expected of a run; None if it stays."""
    text = path.read_text("utf-8")
    content, run = json.loads(text), PurePath(path.stem)
    after = {key: changed(value, run / key, changes) for key, value in content.items()}
    if "config" in after:
        after["config"] = changed(after["config"], run / "config.toml", changes)
    end = after.get("end", {})
    if "records" in end:
        end["records"] = [changed(x, run / "metrics.jsonl", changes) for x in end["records"]]
    if "results" in end:
        end["results"] = changed(end["results"], run / "results.json", changes)
    return rewritten(path, text, content, after)


def rewritten(path: Path, text: str, before: Json, after: Json) -> str | None:
    """Changed content as the file is written; None if nothing changed.

    Raises:
        SystemExit: no known way gives the text of the file for its content.
    """
    if after == before:
        return None
    for style in STYLES:
        with contextlib.suppress(AttributeError, TypeError):  # lines as TOML
            if style(before) == text:
                return style(after)
    raise SystemExit(f"{path} is written in none of the ways that rename_keys.py knows")


def sha256(path: Path) -> str:
    """The hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_json(path: Path, content: Json) -> None:
    """Write JSON as the manifests and environments of runs are written."""
    path.write_text(STYLES[0](content), encoding="utf-8")


def rename_keys(folder: Path, changes: Sequence[Change] = CHANGES) -> list[Path]:
    """Apply the rows to `folder/runs` and `folder/expected`; return the files that changed."""
    refuse_other_than_keys(changes)
    runs = folder / "runs"
    places = [path for path in sorted(runs.rglob("*")) if path.is_file() and not path.is_symlink()]
    hashes = {path: sha256(path) for path in places if path.name == MANIFEST}
    texts = {path: of_run(path, path.relative_to(runs), changes) for path in places}
    texts |= {path: of_expected(path, changes) for path in (folder / "expected").glob("*.json")}
    found = sorted(path for path, text in texts.items() if text is not None)
    for path in found:  # none is written if a row does not fit
        path.write_text(texts[path] or "", encoding="utf-8")

    for manifest in hashes:
        content = json.loads(manifest.read_text("utf-8"))
        listed = {manifest.parent / name: facts for name, facts in content["files"].items()}
        for path in listed.keys() & found:
            listed[path].update(bytes=path.stat().st_size, sha256=sha256(path))
            write_json(manifest, content)
    renewed = {was: sha256(path) for path, was in hashes.items()}
    for path in places:
        if path.name == ENVIRONMENT:
            content = json.loads(path.read_text("utf-8"))
            was = content.get("data_sha256")
            if renewed.get(was, was) != was:
                write_json(path, content | {"data_sha256": renewed[was]})
    return found


def main() -> None:
    """Rewrite the folders that the command line names."""
    for folder in map(Path, sys.argv[1:]):
        for name in ("runs", "expected"):
            if not (folder / name).is_dir():
                raise SystemExit(f"{folder} has no folder {name}")
        found = rename_keys(folder)
        print(f"{folder}: {len(CHANGES)} changes of keys, {len(found)} files rewritten")


if __name__ == "__main__":
    main()
