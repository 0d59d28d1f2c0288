"""What a build has finished, so that the next one goes on there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertwright.atomic import sync_file, verify_files
from bertwright.config.values import differing_keys
from bertwright.errors import DataError, IntegrityError
from bertwright.text.corpus.report import CorpusReport

JOURNAL = "journal.json"

OnNote = Callable[[str], None]


@dataclass
class Journal:
    """The state of a build at the end of its last finished shard."""

    folder: Path
    key: dict[str, Any]
    """Everything the bytes depend on; a build goes on only under an equal key."""
    blocks: int = 0
    """Blocks of the corpus that the finished shards hold."""
    counts: dict[str, int] = field(default_factory=dict)
    report: CorpusReport = field(default_factory=CorpusReport)
    """What the workers counted; the reader counts anew."""
    shards: list[dict[str, Any]] = field(default_factory=list)

    def save(self) -> None:
        """Replace the journal on the disk by one rename."""
        state = {
            "key": self.key,
            "blocks": self.blocks,
            "counts": self.counts,
            "report": self.report.as_dict(),
            "shards": self.shards,
        }
        fresh = self.folder / f"{JOURNAL}.new"
        fresh.write_text(json.dumps(state), encoding="utf-8")
        sync_file(fresh)
        fresh.replace(self.folder / JOURNAL)

    def remove(self) -> None:
        """The build is whole and needs no journal."""
        (self.folder / JOURNAL).unlink(missing_ok=True)


def find_journal(folder: Path, key: dict[str, Any], resume: bool, on_note: OnNote) -> Journal:
    """The journal in `folder` if the build can go on there; else an empty folder and journal.

    `on_note` is told which, and why.
    """
    path = folder / JOURNAL
    if not path.is_file():
        reason = ""
    elif not resume:
        reason = "an earlier, unfinished build was not asked for"
    else:
        found, reason = _read(folder, key)
        if found is not None:
            _remove_others(folder, found)
            tokens = sum(int(shard["tokens"]) for shard in found.shards)
            on_note(f"going on behind {len(found.shards)} finished shards ({tokens:,} tokens)")
            return found
    if reason:
        on_note(f"starting anew: {reason}")
    _remove_others(folder, None)
    return Journal(folder, key)


def _read(folder: Path, key: dict[str, Any]) -> tuple[Journal | None, str]:
    """The journal, or why it cannot be used."""
    try:
        state = json.loads((folder / JOURNAL).read_text(encoding="utf-8"))
        journal = Journal(
            folder,
            state["key"],
            int(state["blocks"]),
            dict(state["counts"]),
            CorpusReport(**state["report"]),
            list(state["shards"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        return None, f"the journal of the unfinished build is damaged ({error})"
    differing = differing_keys(journal.key, key)
    if differing:
        return None, f"the unfinished build differs in {', '.join(differing)}"
    if key["inputs"] is None:
        return None, "standard input and hf: cannot be read again from the beginning"
    for shard in journal.shards:
        try:
            verify_files(folder, shard["files"])
        except (IntegrityError, DataError):
            return None, f"{shard['name']} of the unfinished build is damaged"
    return journal, ""


def _remove_others(folder: Path, journal: Journal | None) -> None:
    """Remove what belongs to no finished shard."""
    kept = {JOURNAL}
    for shard in journal.shards if journal else []:
        kept.update(shard["files"])
    for place in folder.iterdir():
        if journal is None or place.name not in kept:
            shutil.rmtree(place) if place.is_dir() else place.unlink()
