"""How long `bertwright --help`, a verb's help and a wrong key take, wall time, in fresh processes.

    python benchmarks/help_time.py [--times 15]

The budgets are 0.35 s for help and 0.5 s for a wrong key. Prints median and worst of each; exits 1
where a median is over its budget.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

from machine import machine

COMMANDS = [
    (["--help"], 0.35),
    (["--version"], 0.35),
    (["pretrain", "--help"], 0.35),
    (["data", "build", "--help"], 0.35),
    (["tokenizer", "train", "--help"], 0.35),
    (["quickstart", "--help"], 0.35),
    (["pretrain", "--optimizer.learning_rat", "1e-4"], 0.5),
]


def measure(words: list[str]) -> tuple[float, float]:
    """Seconds from start to end of one process, and those it spent on a processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "bertwright", *words], capture_output=True, check=False)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure every command and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=15)
    times = parser.parse_args().times
    print(json.dumps({"machine": machine()}), flush=True)
    over = False
    for words, budget in COMMANDS:
        measure(words)  # fills the file cache
        measured = [measure(words) for _ in range(times)]
        wall = statistics.median(wall for wall, _ in measured)
        processor = statistics.median(processor for _, processor in measured)
        over |= wall > budget
        print(
            f"{wall:.3f} s median, {max(measured)[0]:.3f} s worst, {processor:.3f} s processor, "
            f"budget {budget} s: bertwright {' '.join(words)}"
        )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
