"""`bertwright data build`: text files to shards, once, for any number of epochs.

The parent reads blocks of raw documents, workers split, clean and encode them, the parent appends
what comes back in the order of reading; so the bytes are the same for any number of workers and
memory holds a few blocks. What is built stands in a hidden folder beside its place until it is
whole. There a journal lists the shards that are finished and how many blocks they hold: a build
that was killed goes on behind the last of them when the same command runs again. What was read then
is read once more, but not encoded.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from bertwright.atomic import (
    disk_errors,
    held,
    refuse_folder,
    refuse_source,
    replace_folder,
    write_manifest,
)
from bertwright.config.corpus import CorpusConfig
from bertwright.config.values import to_dict
from bertwright.data.encode import COUNTS, EncoderSettings, Segmenter, encode_blocks
from bertwright.data.journal import Journal, OnNote, find_journal
from bertwright.data.shard_writer import ShardWriter
from bertwright.data.shards import FORMAT
from bertwright.errors import ConfigError, DataError
from bertwright.machine import usable_cores
from bertwright.progress import OnProgress, silent
from bertwright.text.corpus.files import find_files, size_on_disk
from bertwright.text.corpus.read import read_blocks
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer
from bertwright.version import __version__

SHARD_TOKENS = 1 << 26
BLOCK_CHARACTERS = 1 << 20


def build_shards(
    inputs: Sequence[str],
    out: Path | str,
    tokenizer_folder: Path | str,
    corpus: CorpusConfig | None = None,
    *,
    workers: int = 0,
    segmented: bool = False,
    segmenter: Segmenter | None = None,
    overwrite: bool = False,
    resume: bool = True,
    shard_tokens: int = SHARD_TOKENS,
    block_characters: int = BLOCK_CHARACTERS,
    on_progress: OnProgress = silent,
    on_note: OnNote = lambda note: None,
) -> dict[str, Any]:
    """Encode a corpus into the folder `out`; return its manifest.

    `workers` 0 means one for every core; with more than one, a script calls this under
    `if __name__ == "__main__":`, because workers start by importing it. `on_progress` counts bytes
    of the files; `on_note` is told whether an earlier build goes on, or why it does not.

    Raises:
        ConfigError: `out` holds something, or what is read; or options contradict each other.
        DataError: no documents; a file that cannot be read.
        BertwrightError: the disk is full, a worker died, or another build writes to `out`.
    """
    out = Path(out)
    corpus = corpus or CorpusConfig()
    files = find_files(inputs)
    for source in (tokenizer_folder, *files):
        refuse_source(out, source)
    refuse_folder(out, overwrite)
    if segmented and segmenter is not None:
        raise ConfigError("--segmented and --segmenter exclude each other: name one")
    if workers < 0:
        raise ConfigError(f"workers is {workers}; expected 0 (one for every core) or more")
    settings = EncoderSettings(Path(tokenizer_folder), corpus, segmented, segmenter)
    tokenizer = load_tokenizer(settings.tokenizer_folder)
    key = _key(files, settings, tokenizer, shard_tokens, block_characters)
    total = size_on_disk(files)
    report = CorpusReport()
    partial = out.with_name(f".{out.name}.building")
    with disk_errors(out):
        partial.mkdir(parents=True, exist_ok=True)
        with held(partial, "building in"):
            journal = find_journal(partial, key, resume, on_note)
            blocks = read_blocks(inputs, corpus, report, block_characters)
            try:
                _encode_all(
                    blocks,
                    settings,
                    workers or usable_cores(),
                    journal,
                    lambda: on_progress(report.position, total),
                )
                report.add(journal.report)
                manifest = _finish(journal, report, tokenizer, inputs)
                replace_folder(partial, out)
            except BaseException:
                if not journal.shards:
                    shutil.rmtree(partial, ignore_errors=True)
                raise
    return manifest


def _encode_all(
    blocks: Iterator[list[str]],
    settings: EncoderSettings,
    workers: int,
    journal: Journal,
    on_block: Callable[[], None],
) -> None:
    """Write all blocks; whatever happens, only finished shards and their journal stay."""
    for _ in islice(blocks, journal.blocks):
        on_block()
    writer = ShardWriter(journal.folder, journal.key["shard_tokens"], journal.shards)
    counts = {name: journal.counts.get(name, 0) for name in COUNTS}
    report = CorpusReport()
    report.add(journal.report)
    done = journal.blocks

    def save() -> None:
        journal.blocks, journal.counts, journal.shards = done, dict(counts), list(writer.finished)
        journal.report = CorpusReport()
        journal.report.add(report)
        journal.save()

    try:
        with closing(encode_blocks(settings, blocks, workers)) as encoded:
            for block in encoded:
                shard_ended = writer.append(block)
                done += 1
                report.add(block.report)
                for name, count in block.counts.items():
                    counts[name] += count
                if shard_ended:
                    save()
                on_block()
        writer.end_shard()
        save()
    finally:
        writer.abandon()


def _finish(
    journal: Journal, report: CorpusReport, tokenizer: Tokenizer, inputs: Sequence[str]
) -> dict[str, Any]:
    """Put the tokenizer and the manifest beside the shards; nothing in them tells time or place."""
    counts = journal.counts
    if not counts["documents"]:
        raise DataError(
            f"no documents with text in {', '.join(inputs)}: {report.files} files, "
            f"{report.bytes:,} bytes, {counts['documents_read']} documents read, all empty after "
            "cleaning; name files that hold text (for tables: --text-column)"
        )
    tokenizer.save(journal.folder / "tokenizer")
    journal.remove()
    return write_manifest(
        journal.folder,
        {
            "format": FORMAT,
            "bertwright": __version__,
            "inputs": list(inputs),
            "corpus": journal.key["corpus"],
            "segmented": journal.key["segmented"],
            "segmenter": journal.key["segmenter"],
            "report": {**report.as_dict(), "position": 0},
            "counts": counts,
            "tokenizer": {
                "fingerprint": tokenizer.fingerprint,
                "vocab_size": tokenizer.vocab_size,
                "pad_id": tokenizer.pad_id,
                "unk_id": tokenizer.unk_id,
                "cls_id": tokenizer.cls_id,
                "sep_id": tokenizer.sep_id,
                "mask_id": tokenizer.mask_id,
                "special_ids": sorted(tokenizer.special_ids),
            },
            "shards": [
                {name: value for name, value in shard.items() if name != "files"}
                for shard in journal.shards
            ],
        },
    )


def _key(
    files: list[Path],
    settings: EncoderSettings,
    tokenizer: Tokenizer,
    shard_tokens: int,
    block_characters: int,
) -> dict[str, Any]:
    """Everything that the bytes of a build depend on."""
    inputs: dict[str, str] | None = None
    if all(path.is_file() for path in files):
        states = {str(path): path.stat() for path in files}
        inputs = {path: f"{state.st_size} {state.st_mtime_ns}" for path, state in states.items()}
    segmenter = settings.segmenter
    return {
        "format": FORMAT,
        "version": __version__,
        "inputs": inputs,
        "corpus": to_dict(settings.corpus),
        "tokenizer": tokenizer.fingerprint,
        "segmented": settings.segmented,
        "segmenter": None
        if segmenter is None
        else f"{segmenter.__module__}:{segmenter.__qualname__}",
        "shard_tokens": shard_tokens,
        "block_characters": block_characters,
    }
