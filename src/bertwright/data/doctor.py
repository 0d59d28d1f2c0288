"""Find problems of a built corpus before a run trains on it, for `bertwright data check`.

Every file is read and compared with its SHA-256, and every token is counted. Then the instances
that a run would train on are examined; each kind of instances has its own checks
(`Instances.check`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertwright.arrays import Int64s, UInt64s
from bertwright.atomic import verify_manifest
from bertwright.config.run import ValidationConfig
from bertwright.data.checkup import Checkup, grade
from bertwright.data.randomness import make_key, mix
from bertwright.data.shards import Shards, open_shards
from bertwright.data.split import (
    FEW_HELD_OUT,
    described,
    rule_of_new_run,
    split_documents,
    split_text,
)
from bertwright.errors import DataError
from bertwright.progress import OnProgress, silent
from bertwright.text.tokenizer.accents import MOST
from bertwright.text.tokenizer.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from bertwright.data.instances import Instances
    from bertwright.nn.batch import Batch

CHUNK_TOKENS = 1 << 20
MOST_KEPT = 1 << 20
SHORTEST = 8
"""The minimum number of tokens of sentences that are examined for repetition. Shorter ones ("Yes.",
"Chapter 1") repeat without harm."""

_SEPARATE = "separate documents by blank lines, or build with --documents line or file"
_CLEAN = "tokenizer train and data build with --strip-markup remove it"
_READING = {
    "files_of_one_document": ("long files without a single blank line", _SEPARATE, 0.0),
    "documents_cut": ("splits of documents too large to hold", _SEPARATE, 0.0),
    "sentences_cut": ("splits of very long sentences", "is this natural text?", 0.0),
    "invalid_utf8": (
        "malformed characters replaced",
        "convert the files to UTF-8, of Windows-1252 with iconv -f WINDOWS-1252 -t UTF-8 FILE > "
        "NEW; the report in MANIFEST.json names the first positions",
        0.0,
    ),
    "tags": ("tags of HTML or XML in the text", _CLEAN, 0.001),
    "urls": ("web addresses in the text", _CLEAN, 0.01),
    "templates": ("marks of wiki templates and links, or HTML entities", _CLEAN, 0.001),
    "variants": (
        "marks of Chinese wiki markup, as -{zh-tw:...;zh-cn:...}-, which has a word in every "
        "regional variant",
        "keep one: extract the text again with the variant resolved (the wiki's pages with "
        "?variant=zh-cn or zh-tw), or replace each mark by one of its words",
        0.0,
    ),
    "title_documents": (
        "documents of a title alone",
        "leave them out: data build with --min-characters 200",
        0.05,
    ),
}
"""Counts of the corpus report that may give a warning: the message, the advice, and the fraction of
the sentences (for titles, of the documents) above which there is a warning."""


def check(
    folder: Path | str,
    instances: Callable[[Shards], Instances[Batch]] | None = None,
    *,
    on_progress: OnProgress = silent,
) -> Checkup:
    """Examine the shards in a folder, and the training instances that `instances` makes from them.

    `on_progress` receives the number of tokens that are done, and their total.
    """
    shards = open_shards(folder, verify=False)
    verify_manifest(shards.folder)
    checkup = Checkup()
    _check_documents(checkup, shards)
    _check_corpus_report(checkup, shards)
    _check_tokens(checkup, shards, scan_shards(shards, on_progress))
    if instances is None:
        return checkup
    try:
        instances(shards).check(checkup)
    except DataError as error:
        checkup.note("error", "instances", 0, str(error), "another model may train on this data")
    return checkup


def _check_documents(checkup: Checkup, shards: Shards) -> None:
    count = shards.num_documents
    checkup.note(
        "warning" if count < 10 else "ok",
        "documents",
        count,
        f"{count:,} documents, {shards.num_sentences:,} sentences, {shards.num_tokens:,} tokens",
        "are there no blank lines between documents? Then build with --documents line or file; "
        "held-out text, and a BERT's random next sentences, come from other documents",
    )
    fraction = ValidationConfig().fraction
    pairs = bool(shards.manifest.get("parallel"))
    rule = "documents" if pairs else rule_of_new_run(shards, fraction)
    if count > 1 or rule == "ends":
        few = rule == "documents" and split_documents(shards, "dev", fraction).size < FEW_HELD_OUT
        checkup.note(
            "warning" if few and not pairs else "ok",
            "held_out",
            len(split_text(shards, "dev", fraction, rule).documents),
            f"a run holds out {described(shards, fraction, rule)}",
            "so few held-out documents give noisy scores: hold out the end of every document with "
            "pretrain --validation.hold-out ends, or more documents with "
            "--validation.fraction 0.05",
        )
    if shards.num_tokens < 1_000_000:
        checkup.note(
            "warning",
            "size",
            shards.num_tokens,
            f"{shards.num_tokens:,} tokens are little to pre-train on",
            "expect over-fitting; start from a published checkpoint (--init) or add text",
        )


def _check_corpus_report(checkup: Checkup, shards: Shards) -> None:
    counts = shards.manifest["counts"]
    report = shards.manifest.get("report", {})
    rows = int(report.get("empty_documents", 0))  # rows without text, not in `documents_read`
    read = int(counts.get("documents_read", 0)) + rows
    lost = int(counts.get("documents_lost", 0)) + rows
    fraction = lost / read if read else 0.0
    checkup.note(
        grade(fraction, 0.01, 0.5),
        "lost_documents",
        lost,
        f"{lost:,} of {read:,} documents were empty after cleaning",
        "look at a few of them; a wrong --text-column or encoding empties documents",
    )
    for name, (message, advice, most) in _READING.items():
        value = int(report.get(name, 0))
        of = shards.num_documents if name == "title_documents" else shards.num_sentences
        if value > most * of:
            checkup.note("warning", name, value, f"{value:,} {message}", advice)
    sampled = int(report.get("words_sampled", 0))
    losing = int(report.get("words_losing_marks", 0)) / max(1, sampled)
    if sampled:
        checkup.note(
            "warning" if losing > MOST else "ok",
            "lost_marks",
            round(losing, 6),
            f"{losing:.1%} of the words lose accents, vowel signs or other marks, which the "
            "vocabulary strips",
            "if they make other words (as in Hindi, Thai, Japanese, Russian or Vietnamese), train "
            "the vocabulary with tokenizer train --no-strip-accents, and build again",
        )


def _check_tokens(checkup: Checkup, shards: Shards, scan: Scan) -> None:
    counts, unk_id = scan.id_counts, shards.special_id("unk")
    unknown = counts[unk_id] / shards.num_tokens
    checkup.note(
        grade(unknown, 0.01, 0.1),
        "unknown_tokens",
        round(float(unknown), 6),
        f"{unknown:.2%} of the tokens are [UNK]",
        "the vocabulary was made for other text or another script: "
        "train one on this corpus with bertwright tokenizer train",
    )
    example = ""
    if scan.most_repeated is not None:
        tokenizer = load_tokenizer(shards.tokenizer_folder)
        first, last = shards.sentence_tokens[scan.most_repeated : scan.most_repeated + 2]
        text = tokenizer.readable(shards.tokens(int(first), int(min(last, first + 24))).tolist())
        example = f"; most often ({scan.most_repeated_times:,} times): {text[:100]!r}"
    checkup.note(
        grade(scan.repeated, 0.05, 0.5),
        "duplicate_sentences",
        round(scan.repeated, 4),
        f"{scan.repeated:.1%} of the sentences of {SHORTEST} tokens or more repeat an earlier one"
        + example,
        "remove repeated lines from both files"
        if shards.manifest.get("parallel")
        else "remove repeated lines and documents; data build --deduplicate leaves out equal ones",
    )


@dataclass(frozen=True)
class Scan:
    """The result of one pass over all tokens."""

    id_counts: Int64s
    """[V]: how often each id occurs."""
    repeated: float
    """The fraction of the sentences of `SHORTEST` tokens or more that repeat an earlier one."""
    most_repeated: int | None
    """The number of the sentence that occurs most often; None if none occurs twice."""
    most_repeated_times: int


def scan_shards(shards: Shards, on_progress: OnProgress = silent) -> Scan:
    """Read every token once, and count ids and repeated sentences.

    Memory is bounded: if there are more than `MOST_KEPT` distinct sentences, only those are kept
    whose hash ends in a zero bit; if there are still too many, in two zero bits, and so on.
    """
    counts = np.zeros(shards.vocab_size, np.int64)
    key = make_key("sentences")
    mask = np.uint64(0)
    found: list[_Sentences] = []
    waiting = 0
    for first, last in _chunks(shards):
        starts = shards.sentence_tokens[first:last]
        stop = int(shards.sentence_tokens[last])
        ids = shards.tokens(int(starts[0]), stop)
        counts += np.bincount(ids, minlength=shards.vocab_size)
        lengths = np.diff(starts, append=stop)
        position = np.arange(len(ids)) - np.repeat(starts - starts[0], lengths)
        hashes = np.add.reduceat(mix(key, (ids << 32) | position), starts - starts[0])
        kept = np.flatnonzero((lengths >= SHORTEST) & (hashes & mask == 0))
        found.append((hashes[kept], first + kept, np.ones(len(kept), np.int64)))
        waiting += len(kept)
        if waiting > MOST_KEPT or last == shards.num_sentences:
            hashes, sentences, times = _distinct(found)
            while len(hashes) > MOST_KEPT:
                mask = mask << np.uint64(1) | np.uint64(1)
                kept = np.flatnonzero(hashes & mask == 0)
                hashes, sentences, times = hashes[kept], sentences[kept], times[kept]
            found, waiting = [(hashes, sentences, times)], 0
        on_progress(stop, shards.num_tokens)
    most = int(times.argmax()) if len(times) and times.max() > 1 else None
    return Scan(
        id_counts=counts,
        repeated=float(1 - len(times) / times.sum()) if len(times) else 0.0,
        most_repeated=None if most is None else int(sentences[most]),
        most_repeated_times=0 if most is None else int(times[most]),
    )


_Sentences = tuple[UInt64s, Int64s, Int64s]
"""For each distinct sentence, its hash, the number of one sentence that has this hash, and how
often it occurs."""


def _distinct(found: list[_Sentences]) -> _Sentences:
    hashes = np.concatenate([part[0] for part in found])
    sentences = np.concatenate([part[1] for part in found])
    times = np.concatenate([part[2] for part in found])
    distinct, where, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    totals = np.bincount(inverse, times, len(distinct)).astype(np.int64)
    return distinct, sentences[where], totals


def _chunks(shards: Shards) -> Iterator[tuple[int, int]]:
    """Yield ranges of whole sentences with about `CHUNK_TOKENS` tokens, as (first, last + 1)."""
    first = 0
    while first < shards.num_sentences:
        goal = shards.sentence_tokens[first] + CHUNK_TOKENS
        last = int(np.searchsorted(shards.sentence_tokens, goal, side="right")) - 1
        last = min(max(last, first + 1), shards.num_sentences)
        yield first, last
        first = last
