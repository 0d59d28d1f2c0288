"""Building data: MB and tokens a second, peak memory, planning an epoch, assembling a batch.

    python benchmarks/data_building.py TEXT... --tokenizer DIR [--megabytes 15 148 235]

The texts are joined, and of them the first so many MB are built. Beside it `tokenizers` encodes the
same sentences (already split, held in memory, its ids thrown away) with all its threads, on at most
the first 15 MB. Memory is the sum of the resident sets of all processes, sampled; shared pages
count for each. Prints the machine, then one JSON line a size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from machine import machine
from text_part import write_text

from bertwright.config.corpus import CorpusConfig
from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.shards import Shards, open_shards
from bertwright.models.bert.config import InstanceConfig, MaskingConfig
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.bert.masked_pairs import MaskedPairs
from bertwright.text.corpus.read import read_documents
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.tokenizer import load_tokenizer

YARDSTICK_MEGABYTES = 15


class Memory(threading.Thread):
    """Samples the resident sets of a process and all below it."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.running = pid, 0, True

    def run(self) -> None:
        while self.running:
            self.peak = max(self.peak, sum(map(self._resident, self._tree(self.pid))))
            time.sleep(0.1)

    def _tree(self, pid: int) -> list[int]:
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return []
        return [pid, *(below for child in children for below in self._tree(int(child)))]

    def _resident(self, pid: int) -> int:
        try:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGESIZE")


def build(text: Path, out: Path, tokenizer: str, workers: int) -> tuple[float, float]:
    """Seconds and peak MB of the whole command, start of Python included."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "bertwright", "data", "build", str(text), "--out", str(out)]
    command += ["--tokenizer", tokenizer, "--workers", str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    memory = Memory(process.pid)
    memory.start()
    if process.wait() != 0:
        raise SystemExit("the build failed")
    memory.running = False
    return time.perf_counter() - start, memory.peak / 1e6


def yardstick(text: Path, tokenizer: str) -> float:
    """MB a second of `tokenizers.encode_batch_fast` on sentences, in batches of 1,000."""
    documents = read_documents([str(text)], CorpusConfig(), CorpusReport())
    sentences = [sentence for document in documents for sentence in document]
    with tempfile.TemporaryDirectory() as folder:
        load_tokenizer(tokenizer).save(folder)
        backend = tokenizers.Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
    start = time.perf_counter()
    for first in range(0, len(sentences), 1000):
        backend.encode_batch_fast(sentences[first : first + 1000], add_special_tokens=False)
    return text.stat().st_size / 1e6 / (time.perf_counter() - start)


def _data(
    shards: Shards, instances: InstanceConfig, masking: MaskingConfig
) -> EpochLoader[MaskedBatch]:
    return EpochLoader(MaskedPairs(shards, instances, masking, validation_fraction=0.0))


def training(folder: Path) -> dict[str, Any]:
    """Seconds to plan an epoch, milliseconds for a batch of 4,096 tokens."""
    figures: dict[str, Any] = {}
    shards = open_shards(folder)
    for objectives in ("mlm+nsp", "mlm"):
        data = _data(shards, InstanceConfig(objectives=objectives), MaskingConfig())
        start = time.perf_counter()
        figures[f"instances {objectives}"] = data.sequences_in_epoch(0)
        figures[f"plan_seconds {objectives}"] = round(time.perf_counter() - start, 3)
    for whole_word in (False, True):
        data = _data(shards, InstanceConfig(), MaskingConfig(whole_word=whole_word))
        data.tokens_in_epoch(0)
        times = []
        for step in range(min(200, data.steps_in_epoch(0, 4096))):
            start = time.perf_counter()
            data.step(0, step, 4096, 4096)
            times.append(1000 * (time.perf_counter() - start))
        name = "batch_ms whole words" if whole_word else "batch_ms"
        figures[name] = round(float(np.median(times)), 2)
    return figures


def main() -> None:
    """Measure every size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[15, 148, 235])
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    print(json.dumps({"machine": machine()}), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        write_text(options.inputs, text, min(YARDSTICK_MEGABYTES, *options.megabytes))
        rate = yardstick(text, options.tokenizer)
        print(json.dumps({"tokenizers_mb_per_second": round(rate, 2)}), flush=True)
        for megabytes in options.megabytes:
            size = write_text(options.inputs, text, megabytes)
            out = Path(folder, f"out-{megabytes}")
            seconds, peak = build(text, out, options.tokenizer, options.workers)
            tokens = open_shards(out).num_tokens
            figures = {
                "mb": round(size, 1),
                "seconds": round(seconds, 2),
                "mb_per_second": round(size / seconds, 2),
                "over_tokenizers": round(size / seconds / rate, 2),
                "tokens": tokens,
                "tokens_per_second": round(tokens / seconds),
                "peak_mb": round(peak),
                **training(out),
            }
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
