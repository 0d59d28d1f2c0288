"""Build shards from text files, once for any number of epochs (`bertwright data build`).

The parent process reads blocks of raw documents, workers split, clean and encode them, and the
parent appends the results in the order of reading. So the bytes are the same for any number of
workers, and memory holds only a few blocks. The shards are built in a hidden folder beside `out`,
which takes the name `out` when it is complete. A journal in the hidden folder lists the finished
shards and the number of blocks that they hold. If a build is killed and the same command is run
again, it continues after the last finished shard: the blocks before are read again, but not encoded
again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bertwright.atomic import (
    atomic_file,
    disk_errors,
    held,
    parents_made,
    refuse_folder,
    refuse_source,
    replace_folder,
    verify_files,
)
from bertwright.config.corpus import CorpusConfig
from bertwright.config.values import differing_keys, to_dict
from bertwright.data.encode import BlockEncoder
from bertwright.data.shards import FORMAT, ShardWriter, write_shards_manifest
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.machine import usable_cores
from bertwright.progress import OnProgress, silent
from bertwright.rows.open import size_on_disk
from bertwright.text.corpus.find import find_files
from bertwright.text.corpus.read import read_blocks
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer
from bertwright.text.workers import map_in_order
from bertwright.version import __version__

JOURNAL = "journal.json"
SHARD_TOKENS = 1 << 26
BLOCK_CHARACTERS = 1 << 20
_GOES_ON = ", it continues after the last finished shard"

OnNote = Callable[[str], None]


def build_shards(
    inputs: Sequence[str],
    out: Path | str,
    tokenizer_folder: Path | str,
    corpus: CorpusConfig | None = None,
    *,
    workers: int = 0,
    cluster: str | None = None,
    segmented: bool = False,
    overwrite: bool = False,
    shard_tokens: int = SHARD_TOKENS,
    block_characters: int = BLOCK_CHARACTERS,
    on_progress: OnProgress = silent,
    on_note: OnNote = lambda note: None,
) -> dict[str, Any]:
    """Encode a corpus into the folder `out`, and return its manifest.

    `workers` 0 means one for every core. With more than one worker, a script must call this under
    `if __name__ == "__main__":`, because workers start by importing it. `cluster` is the address
    of a Dask scheduler whose workers encode instead; the bytes are the same. `on_progress` receives
    the bytes of the files that are done, and their total. `on_note` receives a line that says
    whether an unfinished build is continued, or why not.
    """
    out = Path(out)
    corpus = corpus or CorpusConfig()
    files = find_files(inputs)
    for source in (tokenizer_folder, *files):
        refuse_source(out, source)
    refuse_folder(out, overwrite)
    if workers < 0:
        raise ConfigError(f"workers is {workers}; expected 0 (one for every core) or more")
    tokenizer = load_tokenizer(tokenizer_folder)
    key = {
        "format": FORMAT,
        "version": __version__,
        "inputs": _states(files),
        "corpus": to_dict(corpus),
        "tokenizer": tokenizer.fingerprint,
        "segmented": segmented,
        "shard_tokens": shard_tokens,
        "block_characters": block_characters,
    }
    total = size_on_disk(files)
    report = CorpusReport()
    building = out.with_name(f".{out.name}.building")
    with disk_errors(out), parents_made(out):
        building.mkdir(exist_ok=True)
        with held(building, "building in"):
            journal = find_journal(building, key, on_note)
            blocks = read_blocks(inputs, corpus, report, block_characters)
            try:
                _encode_all(
                    blocks,
                    partial(BlockEncoder, tokenizer, corpus, segmented),
                    workers or usable_cores(),
                    cluster,
                    journal,
                    lambda: on_progress(report.position, total),
                )
                report.add(journal.report)
                manifest = _finish(journal, report, tokenizer, inputs)
                _move(journal, out)
            except BaseException:
                if not journal.shards:
                    shutil.rmtree(building, ignore_errors=True)
                raise
    return manifest


def _encode_all(
    blocks: Iterator[list[str]],
    make_encoder: Callable[[], BlockEncoder],
    workers: int,
    cluster: str | None,
    journal: Journal,
    on_block: Callable[[], None],
) -> None:
    """Encode and write all blocks. If this fails, only finished shards and their journal remain."""
    for _ in islice(blocks, journal.blocks):
        on_block()
    writer = ShardWriter(journal.folder, journal.key["shard_tokens"], journal.shards)
    try:
        with closing(map_in_order(make_encoder, blocks, workers, _GOES_ON, cluster)) as encoded:
            for block in encoded:
                shard_ended = writer.append(block)
                journal.blocks += 1
                journal.counts.update(block.counts)
                journal.report.add(block.report)
                if shard_ended:
                    journal.save()
                on_block()
        writer.end_shard()
        journal.save()
    finally:
        writer.abandon()


def _finish(
    journal: Journal, report: CorpusReport, tokenizer: Tokenizer, inputs: Sequence[str]
) -> dict[str, Any]:
    """Write the tokenizer and the manifest beside the shards, and return the manifest.

    The manifest contains no times, and no paths but those of the inputs.
    """
    counts = journal.counts
    if not counts["documents"]:
        raise DataError(
            f"no documents with text in {', '.join(inputs)}: {report.files} files, "
            f"{report.bytes:,} bytes, {counts['documents_read']} documents read, all empty after "
            "cleaning; name files that hold text (for tables: --text-column)"
        )
    facts = {
        "inputs": list(inputs),
        **{name: journal.key[name] for name in ("corpus", "segmented")},
        "report": {**to_dict(report), "position": 0},
    }
    tokenizer.save(journal.folder / "tokenizer")
    return write_shards_manifest(
        journal.folder, tokenizer, counts, journal.shards, facts, without=[JOURNAL]
    )


def _move(journal: Journal, out: Path) -> None:
    """Move a complete build to its path. If this fails, the build can still be continued."""
    (journal.folder / JOURNAL).unlink()
    try:
        replace_folder(journal.folder, out)
    except BaseException:
        if journal.folder.is_dir():
            with contextlib.suppress(OSError):
                journal.save()
        raise


def _states(files: list[Path]) -> dict[str, str] | None:
    """Return the size and the modification time of each file; None if an input is not a file, such
    as standard input.
    """
    if not all(path.is_file() for path in files):
        return None
    states = {str(path): path.stat() for path in files}
    return {path: f"{state.st_size} {state.st_mtime_ns}" for path, state in states.items()}


@dataclass
class Journal:
    """The state of a build. The file has the state at the end of the last finished shard."""

    folder: Path
    key: dict[str, Any]
    """Everything that the bytes depend on. A build is continued only if its key is the same."""
    blocks: int = 0
    """The number of blocks of the corpus that the finished shards hold."""
    counts: Counter[str] = field(default_factory=Counter)
    report: CorpusReport = field(default_factory=CorpusReport)
    """The counts of the workers. Those of the reader are not stored, because a build that is
    continued reads everything again."""
    shards: list[dict[str, Any]] = field(default_factory=list)

    def save(self) -> None:
        """Replace the journal on disk atomically."""
        state = to_dict(self)
        del state["folder"]
        with atomic_file(self.folder / JOURNAL, overwrite=True) as file:
            file.write(json.dumps(state))


def find_journal(folder: Path, key: dict[str, Any], on_note: OnNote) -> Journal:
    """Return the journal in `folder` if the build there can be continued, else a new journal.

    Files in `folder` that belong to no finished shard are removed. If there is a journal, `on_note`
    receives a line that says whether the build is continued, or why not.
    """
    journal = Journal(folder, key)
    if (folder / JOURNAL).is_file():
        found, reason = _read_journal(folder, key)
        if found is None:
            on_note(f"starting from scratch: {reason}")
        else:
            tokens = sum(int(shard["tokens"]) for shard in found.shards)
            on_note(f"continuing after {len(found.shards)} finished shards ({tokens:,} tokens)")
            journal = found
    _remove_others(folder, journal)
    return journal


def _read_journal(folder: Path, key: dict[str, Any]) -> tuple[Journal | None, str]:
    """Return the journal and "", or None and the reason why it cannot be used."""
    try:
        state = json.loads((folder / JOURNAL).read_text(encoding="utf-8"))
        journal = Journal(
            folder,
            state["key"],
            int(state["blocks"]),
            Counter(state["counts"]),
            CorpusReport(**state["report"]),
            list(state["shards"]),
        )
        if differing := differing_keys(journal.key, key):
            return None, f"the unfinished build differs in {', '.join(differing)}"
        if key["inputs"] is None:
            return None, "standard input and hf: cannot be read again from the beginning"
        for shard in journal.shards:
            verify_files(folder, shard["files"])
    except (ValueError, KeyError, TypeError, IntegrityError, DataError) as error:
        return None, f"the unfinished build is damaged ({error})"
    return journal, ""


def _remove_others(folder: Path, journal: Journal) -> None:
    """Remove all files and folders that belong to no finished shard."""
    kept = {name for shard in journal.shards for name in (JOURNAL, *shard["files"])}
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
