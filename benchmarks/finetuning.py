"""Fine-tuning, ours beside transformers' Trainer: examples a second, in the same run.

    python benchmarks/finetuning.py [--tasks SST-2 MRPC] [--examples 1000] [--rounds 2]
        [--threads 2] [--data FOLDER] [--model FOLDER]

One epoch over the first examples of each file, batches of 32, texts cut at 128 tokens, AdamW.
transformers runs as published: dynamic padding, dropout 0.1 also of attention probabilities, its
default attention; float32 (its default) and bf16 autocast. Ours runs by its default precision (bf16
where that is measured to be faster), in float32, and in bf16 with attention dropout as the peer.
Seconds are of training alone, as both sides count them. Every side is a process of its own; sides
take turns, and the best of the rounds counts. Prints one JSON line a task.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

EXPERIMENT = Path(__file__).resolve().parents[1] / "experiments" / "finetuning"
sys.path.insert(0, str(EXPERIMENT))

TASKS = ["SST-2", "MRPC"]
SIDES = {
    "transformers-fp32": ("fp32", 0.1),
    "transformers-bf16": ("bf16", 0.1),
    "bertwright-default": ("auto", 0.0),
    "bertwright-fp32": ("fp32", 0.0),
    "bertwright-bf16-attention-dropout": ("bf16", 0.1),
}
"""Precision and dropout of attention probabilities."""
RATIOS = {
    "default over default": ("bertwright-default", "transformers-fp32"),
    "both bf16": ("bertwright-default", "transformers-bf16"),
    "both fp32": ("bertwright-fp32", "transformers-fp32"),
    "both bf16, attention dropout": ("bertwright-bf16-attention-dropout", "transformers-bf16"),
}


def write_part(name: str, folder: Path, given: argparse.Namespace) -> tuple[Path, Path]:
    """The first examples of a shuffled training file, and a few held-out ones."""
    from settings import SETTINGS, cut_lines

    made = []
    for which, count in (("train", given.examples), ("dev", 32)):
        source = given.data / getattr(SETTINGS[name], which)
        made.append(folder / f"{which}{source.suffix}")
        made[-1].write_text(cut_lines(source.read_text(encoding="utf-8"), count), encoding="utf-8")
    return made[0], made[1]


def measure_peer(name: str, side: str, folder: Path, given: argparse.Namespace) -> float:
    """Examples a second of transformers' Trainer."""
    import transformers
    from peer import make_trainer
    from peer_tasks import make_task
    from settings import SETTINGS

    setting = replace(SETTINGS[name], epochs=1, batch_size=32, max_length=128)
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    task = make_task(setting, *write_part(name, folder, given), tokenizer)
    asked = {"attention": "sdpa", "precision": SIDES[side][0], "max_steps": None, "out": folder}
    options = argparse.Namespace(model=given.model, **asked)
    trainer = make_trainer(setting, task, tokenizer, 1, options)
    begin = time.perf_counter()
    trainer.train()
    return task.examples / (time.perf_counter() - begin)


def measure_ours(name: str, side: str, folder: Path, given: argparse.Namespace) -> float:
    """Examples a second of ours."""
    from learn import learn
    from settings import SETTINGS

    from bertwright.config.finetune import FinetuneConfig, TaskFilesConfig

    precision, dropout = SIDES[side]
    train, dev = write_part(name, folder, given)
    config = FinetuneConfig(
        given.model,
        str(folder / "run"),
        epochs=1,
        batch_size=32,
        attention_dropout=dropout,
        precision=precision,
    )
    files = TaskFilesConfig(str(train), str(dev), max_length=128)
    record = learn(name, SETTINGS[name].kind, files, config)
    print(record["precision"], file=sys.stderr)
    return float(record["examples_per_second"])


def main() -> None:
    """Measure each side in processes of their own, in turns."""
    from settings import data_folder, model_folder

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--model", default=None, help="folder; by default the packaged MiniLM")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.model = given.model or model_folder()
    if given.one:
        measure = measure_peer if given.one.startswith("transformers") else measure_ours
        with tempfile.TemporaryDirectory() as folder:
            print(measure(given.tasks[0], given.one, Path(folder), given))
        return
    environment = os.environ | {"OMP_NUM_THREADS": str(given.threads)}
    environment["TRANSFORMERS_VERBOSITY"] = "error"
    for name in given.tasks:
        rates = dict.fromkeys(SIDES, 0.0)
        for _ in range(given.rounds):
            for side in SIDES:
                command = [sys.executable, __file__, "--one", side, "--tasks", name]
                command += ["--data", str(given.data), "--model", given.model]
                command += ["--examples", str(given.examples)]
                output = subprocess.run(
                    command, check=True, stdout=subprocess.PIPE, text=True, env=environment
                )
                rates[side] = max(rates[side], float(output.stdout.split()[-1]))
        ratios = {name: round(rates[a] / rates[b], 2) for name, (a, b) in RATIOS.items()}
        rounded = {side: round(rate, 1) for side, rate in rates.items()}
        print(json.dumps({"task": name, "examples_per_second": rounded, "ratios": ratios}))


if __name__ == "__main__":
    main()
