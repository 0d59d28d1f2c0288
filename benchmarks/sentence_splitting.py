"""Reading and sentence splitting: MB of UTF-8 a second of processor time, on one core.

    python benchmarks/sentence_splitting.py CORPUS... [--megabytes 30] [--samples 0]

Prints one JSON line a corpus: the rate of the reader alone (`read_blocks`), of `split_sentences`
alone, and of both (`read_documents`), each the best of three; decompression is not in it. With
`--samples N` also N sentence ends with their neighbours, to be judged by eye.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import machine

from bertwright.config.corpus import CorpusConfig
from bertwright.rows.open import open_bytes
from bertwright.text.corpus.find import find_files
from bertwright.text.corpus.read import CorpusReport, read_blocks, read_documents
from bertwright.text.sentences import split_sentences


def best_of_three(work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return min(times)


def measure(path: Path, megabytes: float, samples: int) -> dict[str, object]:
    """The rates on the first `megabytes` of a text file, cut at its last line."""
    config = CorpusConfig()
    with open_bytes(path) as stream:
        data = stream.read(int(megabytes * 1e6))
    data = data[: data.rfind(b"\n") + 1] or data
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "plain.txt")
        plain.write_bytes(data)
        inputs = [str(plain)]
        documents = [
            text for block in read_blocks(inputs, config, CorpusReport()) for text in block
        ]
        report = CorpusReport()
        reading = best_of_three(lambda: sum(map(len, read_blocks(inputs, config, CorpusReport()))))
        splitting = best_of_three(lambda: [split_sentences(text) for text in documents])
        both = best_of_three(lambda: sum(1 for _ in read_documents(inputs, config, CorpusReport())))
        sentences = sum(map(len, read_documents(inputs, config, report)))
    size = len(data) / 1e6
    chance = random.Random(1)
    for _ in range(samples):
        found = split_sentences(chance.choice(documents))
        if len(found) > 1:
            at = chance.randrange(len(found) - 1)
            print(f"{found[at][-70:]!r} | {found[at + 1][:50]!r}")
    return {
        "corpus": path.name,
        "megabytes": round(size, 1),
        "documents": len(documents),
        "sentences": sentences,
        "reader_mb_per_second": round(size / reading, 1),
        "splitter_mb_per_second": round(size / splitting, 1),
        "both_mb_per_second": round(size / both, 1),
    }


def main() -> None:
    """Measure each file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--megabytes", type=float, default=30)
    parser.add_argument("--samples", type=int, default=0)
    options = parser.parse_args()
    print(json.dumps({"machine": machine()}), flush=True)
    for path in find_files(options.corpus):
        print(json.dumps(measure(path, options.megabytes, options.samples)))


if __name__ == "__main__":
    main()
