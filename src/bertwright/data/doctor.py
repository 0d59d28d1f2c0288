"""`bertwright data check`: what is wrong with a built corpus, before a run trains on it in vain.

Every file is read and compared with its SHA-256, every token is counted, the instances of an epoch
are planned (for a very large corpus: those of a part of its documents) and batches are made of some
of them, so that rates are measured where the model meets them, not read from the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bertwright.arrays import Int64s, UInt64s
from bertwright.atomic import verify_manifest
from bertwright.config.bert_run import InstanceConfig, MaskingConfig
from bertwright.data.masked_pairs import assemble, vocabulary_of
from bertwright.data.masking import Masker
from bertwright.data.randomness import make_key, mix
from bertwright.data.sentence_pairs import EpochPlan, plan_epoch
from bertwright.data.shards import Shards, open_shards
from bertwright.errors import BertwrightError
from bertwright.progress import OnProgress, silent
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer

Level = Literal["ok", "warning", "error"]

PLANNED_TOKENS = 1 << 28
SAMPLED_SEQUENCES = 4096
CHUNK_TOKENS = 1 << 20
MOST_KEPT = 1 << 20
SHORTEST = 8
"""Sentences of fewer tokens ("Yes.", "Chapter 1") repeat without harm and are not counted."""

_BESIDE_CJK = re.compile(" (?=[\u3001-\u9fff\uff01-\uff60])|(?<=[\u3001-\u9fff\uff01-\uff60]) ")

_SEPARATE = "separate documents by blank lines, or build with --documents line or file"
_READING = {
    "files_of_one_document": ("long files without a single blank line", _SEPARATE),
    "documents_cut": ("splits of documents too large to hold", _SEPARATE),
    "sentences_cut": ("splits of sentences too long to be any", "is this natural text?"),
    "invalid_utf8": (
        "malformed byte sequences replaced",
        "convert the files to UTF-8; the report in MANIFEST.json names the first positions",
    ),
    "lone_surrogates": ("lone surrogates replaced", "repair the JSON that holds them"),
}
"""Counts of the corpus report that are worth a warning: what they count, what to do."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    name: str
    value: float | int | str
    message: str
    advice: str = ""
    """What to do; empty where all is well."""


@dataclass
class Checkup:
    """All findings, and the figures they are from."""

    findings: list[Finding] = field(default_factory=list)
    statistics: dict[str, Any] = field(default_factory=dict)

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.level == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many findings are warnings."""
        return sum(finding.level == "warning" for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "errors": self.errors,
            "warnings": self.warnings,
            "findings": [asdict(finding) for finding in self.findings],
            "statistics": self.statistics,
        }

    def note(
        self, level: Level, name: str, value: float | int | str, message: str, advice: str = ""
    ) -> None:
        """Add a finding; advice is kept only where something is wrong."""
        self.findings.append(Finding(level, name, value, message, "" if level == "ok" else advice))


def check(
    folder: Path | str,
    instances: InstanceConfig | None = None,
    masking: MaskingConfig | None = None,
    *,
    seed: int = 0,
    on_progress: OnProgress = silent,
) -> Checkup:
    """Examine what `bertwright data build` wrote, as training with these configurations meets it.

    Raises:
        DataError: the folder is no built corpus, or has no documents.
        IntegrityError: a file is missing, truncated or changed.
    """
    instances, masking = instances or InstanceConfig(), masking or MaskingConfig()
    shards = open_shards(folder, verify=False)
    verify_manifest(shards.folder)
    checkup = Checkup()
    tokenizer = _check_tokenizer(checkup, shards)
    _check_documents(checkup, shards, instances)
    _check_corpus_report(checkup, shards)
    scan = scan_shards(shards, on_progress)
    _check_tokens(checkup, shards, scan, tokenizer)
    every = 1 + shards.num_tokens // PLANNED_TOKENS
    plan = plan_epoch(shards, np.arange(0, shards.num_documents, every), instances, seed, 0)
    _check_instances(checkup, shards, plan, instances)
    lacking = " ".join(role for role in ("cls", "sep", "mask") if role not in shards.special)
    if lacking:
        checkup.note(
            "warning",
            "special_tokens",
            lacking,
            f"the vocabulary has no special token for {lacking}: no masked LM can train on it",
            "for a BERT, train a tokenizer with --special-tokens bert and build the data again",
        )
    elif len(plan):
        _check_masks(checkup, shards, plan, instances, masking, seed)
    return checkup


def _grade(value: float, warning: float, error: float) -> Level:
    """`error` above the one threshold, `warning` above the other."""
    return "error" if value > error else "warning" if value > warning else "ok"


def _check_tokenizer(checkup: Checkup, shards: Shards) -> Tokenizer | None:
    try:
        tokenizer = load_tokenizer(shards.tokenizer_folder)
    except BertwrightError as error:
        checkup.note("error", "tokenizer", "unreadable", str(error), "build the data again")
        return None
    same = tokenizer.fingerprint == shards.tokenizer_fingerprint
    checkup.note(
        "ok" if same else "error",
        "tokenizer",
        tokenizer.fingerprint[:12],
        f"{tokenizer.vocab_size:,} tokens"
        + ("" if same else f"; the shards were built with {shards.tokenizer_fingerprint[:12]}"),
        "the tokenizer beside the shards is not theirs: build the data again",
    )
    return tokenizer


def _check_documents(checkup: Checkup, shards: Shards, instances: InstanceConfig) -> None:
    count = shards.num_documents
    next_sentence = instances.objectives == "mlm+nsp"
    level: Level = "ok"
    if count == 1:
        level = "error" if next_sentence else "warning"
    elif count < 10:
        level = "warning"
    checkup.note(
        level,
        "documents",
        count,
        f"{count:,} documents, {shards.num_sentences:,} sentences, {shards.num_tokens:,} tokens",
        "are there no blank lines between documents? Then build with --documents line or file; "
        "random next sentences and held-out text come from other documents",
    )
    sentences = np.diff(shards.document_sentences)
    share = float((sentences == 1).mean())
    checkup.note(
        _grade(share, 0.1, 0.5) if next_sentence else "ok",
        "one_sentence_documents",
        round(share, 4),
        f"{share:.1%} of the documents have one sentence"
        + (": their next sentence is always random" if next_sentence else ""),
        "is there a blank line after every line, or --documents line on lines of one sentence? "
        "Join what belongs together, or train with --instances.objectives mlm",
    )
    checkup.statistics["sentences_per_document"] = _quantiles(sentences)
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
    read, lost = int(counts.get("documents_read", 0)), int(counts.get("documents_lost", 0))
    # The reader found some empty before they came to be read: rows without text.
    unread = int(report.get("empty_documents", 0)) - int(
        counts.get("documents_without_sentences", 0)
    )
    read, lost = read + unread, lost + unread
    share = lost / read if read else 0.0
    checkup.note(
        _grade(share, 0.01, 0.5),
        "lost_documents",
        lost,
        f"{lost:,} of {read:,} documents were empty after cleaning",
        "look at a few of them; a wrong --text-column or encoding empties documents",
    )
    checkup.statistics["counts"] = counts
    checkup.statistics["corpus_report"] = report
    for name, (message, advice) in _READING.items():
        value = int(report.get(name, 0))
        if value:
            checkup.note("warning", name, value, f"{value:,} {message}", advice)


def _check_tokens(
    checkup: Checkup, shards: Shards, scan: Scan, tokenizer: Tokenizer | None
) -> None:
    counts, unk_id = scan.id_counts, shards.special_id("unk")
    unknown = counts[unk_id] / shards.num_tokens
    checkup.note(
        _grade(unknown, 0.01, 0.1),
        "unknown_tokens",
        round(float(unknown), 6),
        f"{unknown:.2%} of the tokens are [UNK]",
        "the vocabulary was made for other text or another script: "
        "train one on this corpus with bertwright tokenizer train",
    )
    forged = int(sum(counts[i] for i in shards.special_ids if i != unk_id))
    checkup.note(
        "warning" if forged else "ok",
        "special_tokens_in_text",
        forged,
        f"{forged:,} special tokens stand in the text itself",
        "they would be taken for the ends of sequences; build again with this version",
    )
    used = float((counts > 0).mean())
    small = shards.num_tokens < 100 * shards.vocab_size
    checkup.note(
        "warning" if used < 0.5 and not small else "ok",
        "vocabulary_used",
        round(used, 4),
        f"{used:.1%} of the vocabulary occurs",
        "much of the vocabulary is for other text; a smaller one of this corpus trains faster",
    )
    example = ""
    if scan.most_repeated is not None and tokenizer is not None:
        first, last = shards.sentence_tokens[scan.most_repeated : scan.most_repeated + 2]
        text = tokenizer.decode(shards.tokens(int(first), int(min(last, first + 24))).tolist())
        text = _BESIDE_CJK.sub("", text)[:100]  # blanks that the tokenizer set
        example = f"; most often ({scan.most_repeated_times:,} times): {text!r}"
    checkup.note(
        _grade(scan.repeated, 0.05, 0.5),
        "duplicate_sentences",
        round(scan.repeated, 4),
        f"{scan.repeated:.1%} of the sentences of {SHORTEST} tokens or more came before" + example,
        "build with --deduplicate exact (or near) and --boilerplate",
    )


def _check_instances(
    checkup: Checkup, shards: Shards, plan: EpochPlan, instances: InstanceConfig
) -> None:
    checkup.note(
        "ok" if len(plan) else "error",
        "instances",
        len(plan),
        f"{len(plan):,} training instances in an epoch",
        "there is nothing to train on: add text",
    )
    if not len(plan):
        return
    if plan.paired:
        share = float(plan.is_random.mean())
        wanted = instances.random_next_probability
        off = abs(share - wanted)
        level: Level = "error" if not 0.05 <= share <= 0.95 else _grade(off, 0.1, 1.0)
        checkup.note(
            "ok" if wanted in (0.0, 1.0) else level,
            "next_sentence_ratio",
            round(share, 4),
            f"{share:.1%} of the pairs are random (or swapped); {wanted:.0%} configured",
            "documents of one sentence, or sentences longer than a sequence, give only random "
            "pairs: join short documents, split long sentences, or train with "
            "--instances.objectives mlm",
        )
    room = instances.sequence_length - (3 if plan.paired else 2)
    sentences = np.diff(shards.sentence_tokens)
    too_long = float((sentences > room).mean())
    checkup.note(
        _grade(too_long, 0.05, 0.5),
        "long_sentences",
        round(too_long, 4),
        f"{too_long:.2%} of the sentences are longer than a sequence ({room} tokens of text)",
        "are lines whole paragraphs? Build with --sentences split, or raise "
        "--instances.sequence-length",
    )
    special = 3 if plan.paired else 2
    lost = float(plan.truncated.sum() / (plan.truncated + plan.lengths - special).sum())
    cut = float((plan.truncated > 0).mean())
    checkup.note(
        _grade(lost, 0.25, 0.5),
        "truncated",
        round(lost, 4),
        f"{lost:.1%} of the tokens are truncated, from {cut:.1%} of the instances",
        "sentences are long for this sequence length: split them, or raise "
        "--instances.sequence-length",
    )
    fill = float(plan.lengths.mean() / instances.sequence_length)
    checkup.note(
        "warning" if fill < 0.5 else "ok",
        "mean_length",
        round(float(plan.lengths.mean()), 1),
        f"sequences are {plan.lengths.mean():.1f} tokens long on average, {fill:.0%} of the most",
        "documents are short: a lower --instances.sequence-length loses nothing; should they be "
        "longer?",
    )
    edges = np.unique(np.linspace(0, instances.sequence_length, 9).astype(int))
    heights, _ = np.histogram(plan.lengths, edges + 0.5)
    checkup.statistics["length_histogram"] = {
        f"{low + 1}-{high}": int(height)
        for low, high, height in zip(edges[:-1], edges[1:], heights, strict=True)
    }
    checkup.statistics["sentence_tokens"] = _quantiles(sentences)
    checkup.statistics["instances"] = len(plan)


def _check_masks(
    checkup: Checkup,
    shards: Shards,
    plan: EpochPlan,
    instances: InstanceConfig,
    masking: MaskingConfig,
    seed: int,
) -> None:
    vocabulary = vocabulary_of(shards)
    masker = Masker(masking, vocabulary, instances.sequence_length)
    positions = np.arange(min(len(plan), SAMPLED_SEQUENCES))
    batch = assemble(shards, plan, positions, vocabulary, masker, make_key("masks", seed, 0))
    if masking.whole_word:
        _check_words(checkup, shards)
    shown = batch.inputs.ids[batch.masked_positions]
    predicted = len(shown) / batch.num_tokens
    few = batch.num_tokens < 20_000
    level: Level = "warning" if predicted < 0.8 * masking.probability and not few else "ok"
    checkup.note(
        level,
        "predicted",
        round(predicted, 4),
        f"{predicted:.2%} of the tokens are predicted; {masking.probability:.0%} configured",
        "raise --masking.max-predictions; with whole words: are words wrongly segmented?",
    )
    if not len(shown):
        return
    hidden = shown == vocabulary.mask_id
    kept = shown == batch.masked_labels
    keep_share = 1 - masking.mask_share - masking.random_share
    for name, measured, wanted in (
        ("masked", float(hidden.mean()), masking.mask_share),
        ("replaced", float((~hidden & ~kept).mean()), masking.random_share),
        ("kept", float((~hidden & kept).mean()), keep_share),
    ):
        # Six standard deviations, and the probability that a random token is the same one.
        slack = 6 * (wanted * (1 - wanted) / len(shown)) ** 0.5 + masking.random_share * 0.01
        checkup.note(
            "ok" if abs(measured - wanted) <= slack + 1e-9 else "error",
            f"predicted_{name}",
            round(measured, 4),
            f"{measured:.1%} of the predicted tokens are {name}; {wanted:.0%} configured",
            "this is a fault of Bertwright or of a vocabulary of very few tokens: report it",
        )


def _check_words(checkup: Checkup, shards: Shards) -> None:
    starts = shards.word_starts(0, min(shards.num_tokens, 1 << 20))
    pieces = len(starts) / max(1, int(starts.sum()))
    checkup.note(
        "warning" if pieces < 1.05 else "ok",
        "word_tokens",
        round(pieces, 3),
        f"a word has {pieces:.2f} tokens on average; they are masked together",
        "hardly a word has two: whole-word masking changes nothing. Chinese is written without "
        "spaces: build with --segmented or --segmenter",
    )


def _quantiles(values: Any) -> dict[str, float]:
    """Mean and some quantiles."""
    names = ("min", "p10", "p50", "p90", "p99", "max")
    found = np.quantile(values, [0, 0.1, 0.5, 0.9, 0.99, 1])
    return {"mean": round(float(values.mean()), 2)} | {
        name: float(value) for name, value in zip(names, found, strict=True)
    }


@dataclass(frozen=True)
class Scan:
    """What a pass over the tokens found."""

    id_counts: Int64s
    """[V]: how often each id occurs."""
    repeated: float
    """Of the sentences of `SHORTEST` tokens or more, the fraction that came before."""
    most_repeated: int | None
    """The sentence that occurs most often, if any occurs twice."""
    most_repeated_times: int


def scan_shards(shards: Shards, on_progress: OnProgress = silent) -> Scan:
    """Read every token once, and count ids and sentences that repeat.

    Memory is bounded: of more than `MOST_KEPT` distinct sentences those stay whose hash has its
    lowest bit 0, then its lowest two, and so on.

    Raises:
        IntegrityError: an id is not of the vocabulary.
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
"""The hash of each, one sentence that has it, how often it came."""


def _distinct(found: list[_Sentences]) -> _Sentences:
    hashes = np.concatenate([part[0] for part in found])
    sentences = np.concatenate([part[1] for part in found])
    times = np.concatenate([part[2] for part in found])
    distinct, where, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    totals = np.bincount(inverse, times, len(distinct)).astype(np.int64)
    return distinct, sentences[where], totals


def _chunks(shards: Shards) -> Iterator[tuple[int, int]]:
    """Runs of whole sentences of about `CHUNK_TOKENS`: (first, last + 1)."""
    first = 0
    while first < shards.num_sentences:
        goal = shards.sentence_tokens[first] + CHUNK_TOKENS
        last = int(np.searchsorted(shards.sentence_tokens, goal, side="right")) - 1
        last = min(max(last, first + 1), shards.num_sentences)
        yield first, last
        first = last
