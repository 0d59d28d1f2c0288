"""A text from a text by a BERT's own encoder (the mask of UniLM): pre-trained against random start.

    python experiments/bert_generation/run.py --model runs/bert-mini --data E2E --out runs/e2e \
        [--examples 1000] [--tests 0] [--epochs 4] [--seeds 3] [--beam 4]

What `--data` holds says what is written:

- `devset.csv` (4,672 rows of 547 meaning representations; trained on) and `testset_w_refs.csv`
  (4,693 rows of 630; evaluated on, each with all its references): E2E, descriptions from data.
- `train.json` and `dev.json` of SQuAD: questions, from `answer : sentence`, the sentence of the
  context that holds the answer.

Trained on the first `--examples` rows, shuffled, and evaluated on the first `--tests` sources (0:
all). The weights are the last, chosen by nothing. Each run is kept: what is finished is not run
again. Writes `OUT/results.jsonl`.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bertwright.cli.app import run
from bertwright.text.sentences import split_sentences

STARTS: dict[str, list[str]] = {"pre-trained": [], "random": ["--random-start"]}
METRICS = ("bleu", "rouge_l")
Rows = list[list[str]]


def read_rows(data: Path) -> tuple[Rows, Rows]:
    """Sources and targets, to train on and to evaluate on."""
    if (data / "devset.csv").is_file():
        return _csv_rows(data / "devset.csv"), _csv_rows(data / "testset_w_refs.csv")
    return question_rows(data / "train.json"), question_rows(data / "dev.json")


def _csv_rows(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def question_rows(path: Path) -> Rows:
    """`answer : sentence` and the question, of each question of a SQuAD file."""
    found = []
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            sentences = split_sentences(context)
            for each in paragraph["qas"]:
                answer = each["answers"][0]
                at, inside, end = answer["answer_start"], context, 0
                for sentence in sentences:
                    start = context.find(sentence, end)
                    end = start + len(sentence) if start >= 0 else end
                    if 0 <= start <= at < end:
                        inside = sentence
                found.append([f"{answer['text']} : {inside}", each["question"].strip()])
    return found


def write_rows(path: Path, rows: Rows) -> str:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["source", "target"], *rows])
    return str(path)


def main() -> None:
    """Fine-tune, evaluate, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=0)
    parser.add_argument("--epochs", default="4")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--beam", type=int, default=1)
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    rows, tests = read_rows(options.data)
    random.Random(0).shuffle(rows)
    train = write_rows(out / f"train-{options.examples}.csv", rows[: options.examples])
    kept = list(dict.fromkeys(source for source, _ in tests))[: options.tests or None]
    test = write_rows(out / "test.csv", [row for row in tests if row[0] in set(kept)])
    found: dict[str, Any] = {}
    for seed in range(1, options.seeds + 1):
        for start, more in STARTS.items():
            folder = out / f"{start}-{options.examples}-{options.epochs}-{seed}"
            if not (folder / "results.json").is_file():
                words = ["finetune", "generation", "--model", options.model, *more]
                words += ["--train", train, "--dev", test, "--out", str(folder)]
                words += ["--epochs", options.epochs, "--evaluations-per-epoch", "0.01"]
                words += ["--keep", "last", "--seed", str(seed), "--max-length", "128"]
                words += ["--device", "cpu", "--precision", "fp32", "--overwrite"]
                if run(words):
                    raise SystemExit(f"finetune failed: {words}")
            searches = {"greedy": folder / "results.json"}
            if options.beam > 1:
                searches[f"beam {options.beam}"] = beams = folder / f"beam-{options.beam}.json"
                if not beams.is_file():
                    words = ["evaluate", "--model", str(folder), "--data", test, "--device", "cpu"]
                    words += ["--beam", str(options.beam), "--precision", "fp32"]
                    if run([*words, "--out", str(beams)]):
                        raise SystemExit(f"evaluate failed: {words}")
            own = found.setdefault(start, {})
            for how, file_ in searches.items():
                metrics = json.loads(file_.read_text())["metrics"]
                for metric in METRICS:
                    scores = own.setdefault(how, {}).setdefault(metric, [])
                    scores.append(round(metrics[metric], 4))
            facts = {
                "data": options.data.name,
                "examples": options.examples,
                "sources": len(kept),
                "epochs": int(options.epochs),
            }
            figures = [
                {**facts, "start": start, "search": how, **metrics}
                for start, ways in found.items()
                for how, metrics in ways.items()
            ]
            text = "".join(json.dumps(row) + "\n" for row in figures)
            (out / "results.jsonl").write_text(text, encoding="utf-8")
    for start, ways in found.items():
        for how, metrics in ways.items():
            for metric, values in metrics.items():
                sd = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
                print(f"{start:12} {how:7} {metric:8} {100 * fmean(values):.1f}{sd}")


if __name__ == "__main__":
    main()
