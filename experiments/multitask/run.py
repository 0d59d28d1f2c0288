"""Multi-task learning (Collobert and Weston 2008): one encoder for parts of speech, chunks and
named entities together, against one for each alone.

    python experiments/multitask/run.py --data SHARDS --tagging FOLDER --runs FOLDER

SHARDS have a tokenizer of cased wordpieces; a bert-tiny reads `--steps` of 4,096 tokens. FOLDER has
UD-EWT, CoNLL-2000 and CoNLL-2003, columns in train.txt and dev.txt or test.txt. Every task has the
first `--sentences` of its training file, and as many passes over them alone as together; it is
evaluated once, after the last, on the first 500 sentences of dev (chunks: of test), without those
that have a tag which these sentences of training lack. A run that is there is not made again.
Writes `RUNS/results.jsonl`: the metric of each seed, mean and sd.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from bertwright.cli.app import run

TASKS = {
    "pos": ("UD-EWT", "dev.txt", "2", "accuracy"),
    "chunks": ("CoNLL-2000", "test.txt", "3", "f1"),
    "entities": ("CoNLL-2003", "dev.txt", "4", "f1"),
}
"""Name -> folder, file to evaluate on, column of the tags, metric."""
PASSES = {200: 10, 1000: 4, 5000: 2}
"""Training sentences of a task -> passes over them."""
EVALUATED = 500
DEVICE = ["--device", "cpu", "--precision", "fp32", "--overwrite"]


def first(
    path: Path, sentences: int, out: Path, label: str, known: set[str] | None = None
) -> set[str]:
    """Write the first sentences of a file of columns, without those whose tags are not all `known`;
    the tags of all that are written."""
    found: set[str] = set()
    kept = []
    parts = path.read_text("utf-8").strip().split("\n\n")
    for part in [part for part in parts if not part.startswith("-DOCSTART-")][:sentences]:
        tags = {line.split()[int(label) - 1] for line in part.splitlines() if line.strip()}
        if known is None or tags <= known:
            found |= tags
            kept.append(part)
    out.write_text("\n\n".join(kept) + "\n", encoding="utf-8")
    return found


def bertwright(*words: object) -> None:
    """Run a command line."""
    assert run([str(word) for word in [*words, *DEVICE]]) == 0


def seeds_of(folder: Path, metric: str, task: str | None = None) -> list[float]:
    """The metric of every seed of a run, of one of its tasks if there are several."""
    results = json.loads((folder / "results.json").read_text())
    own = results["tasks"][task] if task else results
    return [seed["metrics"][metric] for seed in own["seeds"]]


def main() -> None:
    """Train what is not there, and collect what all runs gave."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("data", "tagging", "runs"):
        parser.add_argument(f"--{name}", required=True, type=Path)
    parser.add_argument("--steps", default="120")
    parser.add_argument("--sentences", type=int, nargs="+", default=list(PASSES))
    parser.add_argument("--seeds", default="3")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    encoder = given.runs / "encoder"
    if not (encoder / "checkpoints" / "latest").exists():
        words = ["pretrain", "--model", "bert-tiny", "--data", given.data, "--out", encoder]
        bertwright(*words, "--batch.tokens", 4096, "--steps", given.steps)
    rows: list[dict[str, Any]] = []
    for sentences in given.sentences:
        options = ["--model", encoder, "--epochs", PASSES[sentences], "--seeds", given.seeds]
        options += ["--batch-size", 16]
        options += ["--keep", "last", "--evaluations-per-epoch", 0.01]
        sections, runs = [], {}
        for task, (folder, dev, label, _) in TASKS.items():
            files = {name: given.runs / f"{task}-{name}.txt" for name in ("train", "dev")}
            known = first(given.tagging / folder / "train.txt", sentences, files["train"], label)
            first(given.tagging / folder / dev, EVALUATED, files["dev"], label, known)
            keys = [f'{name} = "{path}"' for name, path in files.items()]
            section = [f"[{task}]", 'kind = "tagging"', f'label = "{label}"', *keys]
            sections.append("\n".join(section))
            runs[task] = given.runs / f"{task}-{sentences}"
            if not (runs[task] / "results.json").exists():
                own = ["--train", files["train"], "--dev", files["dev"], "--label", label]
                bertwright("finetune", "tagging", *own, "--out", runs[task], *options)
        together = given.runs / f"together-{sentences}"
        if not (together / "results.json").exists():
            tasks = given.runs / "tasks.toml"
            tasks.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
            bertwright("finetune", "multitask", "--tasks", tasks, "--out", together, *options)
        for task, (*_, metric) in TASKS.items():
            ways = seeds_of(runs[task], metric), seeds_of(together, metric, task)
            for way, scores in zip(("alone", "together"), ways, strict=True):
                spread = stdev(scores) if len(scores) > 1 else 0.0
                row = {"sentences": sentences, "passes": PASSES[sentences], "task": task}
                row |= {"way": way, "metric": metric, "mean": round(mean(scores), 4)}
                row |= {"sd": round(spread, 4), "seeds": [round(score, 4) for score in scores]}
                rows.append(row)
                print(json.dumps(row), flush=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (given.runs / "results.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
