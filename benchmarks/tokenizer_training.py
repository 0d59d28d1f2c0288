"""Training and running a tokenizer: seconds, MB/s, peak memory, beside `tokenizers`.

    python benchmarks/tokenizer_training.py train TEXT... [--megabytes 15 148 235] [--workers 0]
    python benchmarks/tokenizer_training.py rounds TEXT... [--megabytes 20]
    python benchmarks/tokenizer_training.py encode TEXT... --tokenizer DIR [--megabytes 20]

`train` trains 30,522 pieces on the first so many MB of the texts joined, ours and with
`tokenizers`' BertWordPieceTokenizer (whose trainer merges by frequency). `rounds` trains 8,000
pieces many pairs a round and one pair a round and compares likelihood, pieces and time. `encode`
cuts sentences with `encode_sentence_ids` (one process) and `encode_batch_fast` (all its threads).
Every measurement runs in a process of its own and prints one JSON line. Memory is the largest
resident set of the parent and, apart, of a worker.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from machine import machine
from text_part import write_text

from bertwright.config.corpus import CorpusConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.text.corpus.read import CorpusReport, read_blocks, split_document
from bertwright.text.tokenizer.files import BertRules
from bertwright.text.tokenizer.tokenizer import load_tokenizer
from bertwright.text.tokenizer.train import train_tokenizer
from bertwright.text.tokenizer.word_counts import count_words
from bertwright.text.tokenizer.wordpiece import FREQUENCY, LIKELIHOOD, NEAR, Merger


def train_ours(text: str, size: int, workers: int) -> dict[str, Any]:
    """Train with Bertwright."""
    config = TokenizerConfig(vocab_size=size, workers=workers)
    tokenizer, training = train_tokenizer([text], CorpusConfig(), config)
    return {"fingerprint": tokenizer.fingerprint[:16], **training}


def train_theirs(text: str, size: int, workers: int) -> dict[str, Any]:
    """Train with `tokenizers`, all its threads."""
    tokenizer = tokenizers.BertWordPieceTokenizer()
    tokenizer.train([text], vocab_size=size, min_frequency=2, show_progress=False)
    return {"vocab_size": tokenizer.get_vocab_size()}


def rounds(text: str, size: int, workers: int) -> dict[str, Any]:
    """Many merges a round against one."""
    blocks = read_blocks([text], CorpusConfig(), CorpusReport())
    counted = count_words(blocks, BertRules(), workers=1)
    often = [item for item in sorted(counted.counts.items()) if item[1] > 1]
    words, times = [word for word, _ in often], [count for _, count in often]
    figures: dict[str, Any] = {"words": len(words)}
    for name, rule in (("wordpiece", LIKELIHOOD), ("bpe", FREQUENCY)):
        for one in (False, True):
            merger = Merger(words, times)
            begin = time.monotonic()
            number = merger.train(size, rule, near=1.0 if one else NEAR, one_a_round=one)
            counts = merger.piece_count[merger.piece_count > 0].astype(float)
            likelihood = (counts * np.log(counts)).sum() - merger.total * math.log(merger.total)
            figures[f"{name}, {'one a round' if one else 'rounds'}"] = {
                "rounds": number,
                "seconds": round(time.monotonic() - begin, 2),
                "log_likelihood": round(float(likelihood)),
                "pieces_per_word": round(merger.total / sum(times), 4),
            }
    return figures


def encode(text: str, folder: str, workers: int) -> dict[str, Any]:
    """Our corpus path against `encode_batch_fast`, ids compared."""
    config = CorpusConfig()
    sentences = [
        sentence
        for block in read_blocks([text], config, CorpusReport())
        for document in block
        for sentence in split_document(document, config)
    ]
    tokenizer = load_tokenizer(folder)
    begin = time.monotonic()
    ids, _ = tokenizer.encode_sentence_ids(sentences)
    ours = time.monotonic() - begin
    backend = tokenizers.Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    backend.encode_special_tokens = True
    begin = time.monotonic()
    encodings = backend.encode_batch_fast(sentences, add_special_tokens=False)
    theirs = time.monotonic() - begin
    same = ids.tolist() == [index for encoding in encodings for index in encoding.ids]
    return {
        "sentences": len(sentences),
        "tokens": len(ids),
        "ours_tokens_per_second": round(len(ids) / ours),
        "tokenizers_tokens_per_second": round(len(ids) / theirs),
        "same_ids": same,
    }


def measured(work: Callable[..., dict[str, Any]], queue: Any, *arguments: Any) -> None:
    """Run `work` and send what it gives, with time and memory."""
    begin = time.monotonic()
    figures = work(*arguments)
    seconds = time.monotonic() - begin
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    queue.put(
        {"seconds": round(seconds, 2), "peak_mb": round(own), "worker_mb": round(child), **figures}
    )


def alone(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """`measured` in a fresh process."""
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=measured, args=(work, queue, *arguments))
    process.start()
    while queue.empty() and process.is_alive():
        process.join(0.05)
    if queue.empty():
        raise SystemExit(process.exitcode or 1)
    figures: dict[str, Any] = queue.get()
    process.join()
    return figures


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["train", "rounds", "encode"])
    parser.add_argument("text", nargs="+")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[20])
    parser.add_argument("--vocab-size", type=int)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--tokenizer", default="")
    given = parser.parse_args()
    if given.what == "encode" and not given.tokenizer:
        parser.error("encode needs --tokenizer DIR")
    print(json.dumps({"machine": machine()}), flush=True)
    for megabytes in given.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            text = str(Path(folder) / "text.txt")
            size = write_text(given.text, Path(text), megabytes)
            runs: dict[str, list[tuple[str, Callable[..., dict[str, Any]], Any]]] = {
                "train": [
                    ("bertwright", train_ours, given.vocab_size or 30522),
                    ("tokenizers", train_theirs, given.vocab_size or 30522),
                ],
                "rounds": [("bertwright", rounds, given.vocab_size or 8000)],
                "encode": [("bertwright", encode, given.tokenizer)],
            }
            for name, work, argument in runs[given.what]:
                figures = alone(work, text, argument, given.workers)
                rate = {"mb": round(size, 1), "mb_per_second": round(size / figures["seconds"], 1)}
                print(
                    json.dumps({"what": given.what, "by": name, **rate, **figures}),
                    flush=True,
                )


if __name__ == "__main__":
    main()
