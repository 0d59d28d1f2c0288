"""Loading word vectors: from text, from our own folder, and beside gensim.

    python benchmarks/word_vectors.py [--words 400000] [--width 300] [--gensim]

Writes a file as GloVe does (random numbers with five decimals) into a temporary folder and reads
it; converts it to a folder of ours by `bertwright convert`, and looks one word up there, in a
process that holds nothing of it yet: a map of the file, of which only the rows that are read come
into memory. The files are in the cache of the operating system. Seconds by the clock and of the
processor, one thread, each the least of three, without the time that Python takes to import; loops
that numba compiles once a computer are compiled before. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from machine import machine

from bertwright.checkpoint.convert import convert
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.word_vectors.files import read_vectors

PATTERNS = 2000
"""Different rows of numbers: more would be as slow to read, and slower to write."""
LOOK_UP = """
import json, sys, time
from bertwright.inference.word_vectors.table import open_words
began = time.perf_counter(), time.process_time()
table = open_words(sys.argv[1])
table.vectors[table.row[sys.argv[2]]].sum()
print(json.dumps([time.perf_counter() - began[0], time.process_time() - began[1]]))
"""


def write(path: Path, words: int, width: int) -> None:
    """A file of vectors."""
    numbers = np.random.default_rng(1).normal(0, 0.4, (PATTERNS, width))
    rows = [" ".join(f"{x:.5g}" for x in row) for row in numbers]
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"word{n} {rows[n % PATTERNS]}\n" for n in range(words))


def seconds(work: Callable[[], object], rounds: int = 3) -> list[float]:
    """By the clock, and of the processor."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return [round(min(each), 3) for each in zip(*found, strict=True)]


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=400_000)
    parser.add_argument("--width", type=int, default=300)
    parser.add_argument("--gensim", action="store_true", help="read the text with gensim too")
    arguments = parser.parse_args()
    found: dict[str, object] = {"machine": machine(), **vars(arguments)}
    with tempfile.TemporaryDirectory() as folder:
        text, small, ours = (Path(folder, name) for name in ("v.txt", "small.txt", "ours"))
        write(small, 10, arguments.width)
        read_vectors(small)
        write(text, arguments.words, arguments.width)
        found["megabytes"] = text.stat().st_size >> 20
        found["text"] = seconds(lambda: read_vectors(text))
        convert(text, ours)
        command = [sys.executable, "-c", LOOK_UP, str(ours), f"word{arguments.words // 2}"]
        runs = [subprocess.run(command, check=True, capture_output=True) for _ in range(3)]
        times = zip(*(json.loads(run.stdout) for run in runs), strict=True)
        found["folder"] = [round(min(each), 3) for each in times]
        assert open_words(ours).words[-1] == f"word{arguments.words - 1}"
        if arguments.gensim:
            from gensim.models import KeyedVectors

            read = partial(KeyedVectors.load_word2vec_format, str(text), no_header=True)
            found["gensim"] = seconds(read, rounds=1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
