"""What `bertwright finetune similarity` reaches, beside the untrained model and TF-IDF.

    python experiments/similarity/quality.py --data DATA --model half=runs/half \
        --tasks sts-b sick qqp squad text [--seeds 3] [--text FILE] [--out FILE]

DATA holds glue/STS-B, glue/QQP, pairs/SICK and span/SQuAD-1.1.

- sts-b: scored pairs, CoSENT; Spearman's correlation on dev.
- sick: relatedness, CoSENT; the same on the official test file.
- qqp: the first 6,000 labelled pairs, CoSENT; average precision and accuracy on dev.
- squad: questions and the paragraphs that answer them, in-batch negatives; the rank of the right
  paragraph among all paragraphs of dev. `--most 10000` takes the first 10,000 questions.
- text: `--corpus` alone, neighbouring sentences of the first 12 million characters of FILE;
  the rank of the right neighbour among those of held-out documents.

Each row has the trained model, the model before training, and TF-IDF, as the run's results have
them; and `peer`, with --peer: sentence-transformers' loss in a loop with equal settings (sts-b
alone). One thread, unless OMP_NUM_THREADS says otherwise.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import bertwright

ROOT = Path(__file__).resolve().parents[2]
EPOCHS = {"sts-b": 4.0, "sick": 4.0, "qqp": 1.0, "squad": 1.0, "text": 1.0}
RATE, LENGTH = 2e-4, 128
"""The peak rate of a small model; that of another is `--learning-rate`."""


def table(path: Path) -> list[dict[str, str]]:
    """Read the rows of a TSV file with a header."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def questions(path: Path) -> list[tuple[str, str]]:
    """Read the questions of a SQuAD file, each with its paragraph."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [
        (each["question"].strip(), paragraph["context"])
        for article in articles
        for paragraph in article["paragraphs"]
        for each in paragraph["qas"]
    ]


def files(task: str, data: Path, most: int | None) -> dict[str, Any]:
    """Return the training and evaluation examples of a task."""
    if task == "sts-b":
        columns = ("sentence1", "sentence2", "score")
        parts = [table(data / "glue/STS-B" / f"{part}.tsv") for part in ("train", "dev")]
    elif task == "sick":
        columns = ("sentence_A", "sentence_B", "relatedness_score")
        parts = [table(data / "pairs/SICK" / f"{part}.tsv") for part in ("train", "test")]
    elif task == "qqp":
        columns = ("question1", "question2", "is_duplicate")
        parts = [table(data / "glue/QQP" / f"{part}.tsv") for part in ("train", "dev")]
        parts[0] = parts[0][:6000]
    else:
        pairs = [questions(data / "span/SQuAD-1.1" / f"{part}.json") for part in ("train", "dev")]
        return {"train": pairs[0][:most], "dev": pairs[1]}
    read = int if task == "qqp" else float
    first, second, last = columns
    rows = [[(row[first], row[second], read(row[last])) for row in part] for part in parts]
    return {"train": rows[0][:most], "dev": rows[1]}


def ours(model: str, task: str, given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train one seed and return the figures of the run."""
    if task == "text":
        text = given.text.read_text(encoding="utf-8")[: given.characters]
        whole = text[: text.rindex("\n\n")]
    with tempfile.TemporaryDirectory() as folder:
        examples: dict[str, Any]
        if task == "text":
            corpus = Path(folder) / "corpus.txt"
            corpus.write_text(whole + "\n", encoding="utf-8")
            examples = {"corpus": [str(corpus)], "corpus_documents": "blank-line"}
        else:
            examples = files(task, given.data, given.most)
        began = time.monotonic()
        run = bertwright.finetune(
            "similarity",
            model=model,
            out=Path(folder) / "run",
            epochs=given.epochs or EPOCHS[task],
            learning_rate=given.learning_rate,
            max_length=LENGTH,
            keep="last",
            evaluations_per_epoch=1e-9,
            seed=seed,
            progress=False,
            **examples,
        )
        results = run.results
        return {
            "seconds": round(time.monotonic() - began, 1),
            "examples_per_second": results["seeds"][0]["examples_per_second"],
            "objective": results.get("objective"),
            "trained": results["seeds"][0]["metrics"],
            "baselines": results.get("baselines"),
        }


def peer(model: str, task: str, given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Train sentence-transformers' model with equal settings."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import sentence_vectors

    pairs = files(task, given.data, given.most)
    train, dev = ([(a, b, score / 5) for a, b, score in pairs[part]] for part in ("train", "dev"))
    sentence_vectors.RATE = given.learning_rate
    speed, score = sentence_vectors.theirs(
        model, train, dev, given.epochs or EPOCHS[task], 32, seed=seed
    )
    return {"examples_per_second": speed, "spearman": score}


def summary(figures: list[float]) -> dict[str, float]:
    """Return the mean and the standard deviation."""
    spread = statistics.stdev(figures) if len(figures) > 1 else 0.0
    return {"mean": statistics.mean(figures), "sd": spread}


def main() -> None:
    """Print a JSON line a task and model, and append it to FILE."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", required=True, help="NAME=FOLDER")
    parser.add_argument("--tasks", nargs="+", default=list(EPOCHS), choices=list(EPOCHS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, help="examples to train on; unset: all")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--learning-rate", type=float, default=RATE)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--characters", type=int, default=12_000_000)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    name, _, model = given.model.partition("=")
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    for task in given.tasks:
        row: dict[str, Any] = {
            "model": name,
            "task": task,
            "seeds": list(seeds),
            "most": given.most,
            "epochs": given.epochs or EPOCHS[task],
            "learning_rate": given.learning_rate,
            "processor": platform.processor() or platform.machine(),
            "ours": [ours(model, task, given, seed) for seed in seeds],
        }
        metrics = row["ours"][0]["trained"]
        row["trained"] = {
            key: summary([run["trained"][key] for run in row["ours"]])
            for key, value in metrics.items()
            if isinstance(value, float)
        }
        if given.peer and task == "sts-b":
            row["peer"] = [peer(model, task, given, seed) for seed in seeds]
        line = json.dumps(row)
        print(line, flush=True)
        if given.out:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
