"""Tables 5 and 6 of BERT (Devlin et al. 2019) on one text: what seeing both sides, and size, buy.

    python experiments/road/paper_tables.py --table 5 --shards shards --glue GLUE \\
        --squad SQuAD-1.1 --out runs/tables [--steps 1200] [--examples 2000] [--epochs 3] \\
        [--seeds 3]

Pre-trains the encoders of the table. Of 5: masked LM with next-sentence prediction, masked LM
alone, and left to right (next token, no next-sentence prediction), of the size `--model`. Of 6:
bert-tiny, bert-mini and bert-small. Fine-tunes each, and the left-to-right one once more under a
random BiLSTM, on the first `--examples` shuffled rows of SST-2 and MRPC (as Microsoft published
it), of table 5 also of SQuAD 1.1, and evaluates the last weights, chosen by nothing, on their dev
files (`--tests` rows of each; 0: all). What is finished is not run again. Writes
`OUT/paper_table_N.json`. Table 7, of frozen features, is `experiments/finetuning/conll.py`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bertwright.cli.app import run

PAIRS = ["--instances.objectives", "mlm+nsp", "--instances.sequence-length", "128"]
ALONE = ["--instances.objectives", "mlm", "--instances.sequence-length", "128"]
SIZES = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512)}
ENCODERS: dict[int, dict[str, tuple[str, list[str]]]] = {
    5: {
        "mlm-nsp": ("bert-{}", PAIRS),
        "mlm": ("bert-{}", ALONE),
        "ltr": ("bert-{}-ltr", ["--sequence-length", "128"]),
    },
    6: {size: (f"bert-{size}", PAIRS) for size in SIZES},
}
ROWS: dict[int, dict[str, tuple[str, list[str]]]] = {
    5: {
        "masked LM + NSP": ("mlm-nsp", []),
        "no NSP": ("mlm", []),
        "left-to-right, no NSP": ("ltr", []),
        "+ BiLSTM": ("ltr", ["--network", "bilstm"]),
    },
    6: {f"{layers} layers of {width}": (size, []) for size, (layers, width) in SIZES.items()},
}
METRICS = {"SST-2": "accuracy", "MRPC": "accuracy", "SQuAD": "f1"}
TASKS = {5: ("SST-2", "MRPC", "SQuAD"), 6: ("SST-2", "MRPC")}


def table(path: Path, columns: tuple[str, ...], names: tuple[str, ...]) -> list[list[str]]:
    """Rows of a file with a header, some of its columns under other names; the header first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    at = [header.index(column) for column in columns]
    return [list(names), *([row[n] for n in at] for row in rows)]


def write_table(path: Path, rows: list[list[str]], count: int, shuffled: bool) -> None:
    """Write a header and some rows."""
    header, *rows = rows
    if shuffled:
        random.Random(0).shuffle(rows)
    lines = ["\t".join(row) for row in [header, *rows[: count or None]]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_questions(path: Path, source: Path, count: int, shuffled: bool) -> None:
    """Write some questions of a SQuAD file, with their contexts."""
    paragraphs = [
        {"context": paragraph["context"], "qas": [question]}
        for article in json.loads(source.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    if shuffled:
        random.Random(0).shuffle(paragraphs)
    data = [{"title": "", "paragraphs": paragraphs[: count or None]}]
    path.write_text(json.dumps({"version": "1.1", "data": data}), encoding="utf-8")


def write_data(options: argparse.Namespace) -> dict[str, tuple[str, list[str], Path, Path]]:
    """Task -> verb of `finetune`, its options, files to train and to evaluate on."""
    folder = options.out / f"data-{options.examples}-{options.tests}"
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, tuple[str, list[str], Path, Path]] = {}
    for split, count in (("train", options.examples), ("dev", options.tests)):
        train = split == "train"
        rows = table(options.glue / "SST-2" / f"{split}.tsv", *[("sentence", "label")] * 2)
        write_table(folder / f"SST-2-{split}.tsv", rows, count, train)
        of_pairs = options.glue / "MRPC" / f"msr_paraphrase_{'train' if train else 'test'}.txt"
        columns = ("#1 String", "#2 String", "Quality")
        rows = table(of_pairs, columns, ("sentence1", "sentence2", "label"))
        write_table(folder / f"MRPC-{split}.tsv", rows, count, train)
        questions = options.squad / f"{split}.json"
        write_questions(folder / f"SQuAD-{split}.json", questions, count, train)
    for task, verb, more, ending in (
        ("SST-2", "classification", [], "tsv"),
        ("MRPC", "classification", [], "tsv"),
        ("SQuAD", "span", ["--max-length", "256", "--stride", "64"], "json"),
    ):
        files = [folder / f"{task}-{split}.{ending}" for split in ("train", "dev")]
        found[task] = verb, more, files[0], files[1]
    return found


def command(*words: object) -> None:
    """Run a verb."""
    if run([str(word) for word in words]):
        raise SystemExit(f"failed: {' '.join(map(str, words))}")


def perplexity(run: Path) -> float:
    """Of held-out masked tokens, or of next ones."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    last = [line for line in lines if line["split"] == "dev"][-1]
    loss = last.get("masked_lm.loss", last.get("next_token.loss"))
    return round(math.exp(loss), 2)


def main() -> None:
    """Pre-train, fine-tune, write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=int, choices=list(ROWS), required=True)
    parser.add_argument("--shards", required=True)
    parser.add_argument("--glue", type=Path, required=True)
    parser.add_argument("--squad", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--epochs", default="3")
    for name, value in (("steps", 1200), ("examples", 2000), ("tests", 0), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    out: Path = options.out
    tasks = write_data(options)
    for name, (model, more) in ENCODERS[options.table].items():
        if not (out / name / "model" / "config.json").is_file():
            words = ["pretrain", "--data", options.shards, "--model", model.format(options.model)]
            words += ["--steps", options.steps, "--seed", 1]
            command(*words, "--device", "cpu", "--out", out / name, "--overwrite", *more)
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(1, options.seeds + 1):
        for row, (encoder, network) in ROWS[options.table].items():
            for task in TASKS[options.table]:
                verb, more, train, dev = tasks[task]
                name = row.replace(" ", "-").replace("+", "and").replace(",", "")
                folder = out / "tasks" / f"{task}-{name}-{options.examples}-{seed}"
                if not (folder / "results.json").is_file():
                    words = ["finetune", verb, "--model", out / encoder, *network, *more]
                    words += ["--train", train, "--dev", dev, "--epochs", options.epochs]
                    words += ["--keep", "last", "--evaluations-per-epoch", "0.01", "--seed", seed]
                    command(*words, "--device", "cpu", "--out", folder, "--overwrite")
                metrics = json.loads((folder / "results.json").read_text())["metrics"]
                own = found.setdefault(row, {}).setdefault(task, [])
                own.append(round(100 * metrics[METRICS[task]], 2))
    learned = {name: perplexity(out / name) for name in ENCODERS[options.table]}
    facts: dict[str, Any] = {
        name: getattr(options, name) for name in ("model", "steps", "examples", "tests", "epochs")
    }
    facts |= {"perplexity": learned, "metrics": METRICS}
    text = json.dumps({**facts, "runs": found}, indent=1)
    (out / f"paper_table_{options.table}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{'':24}{'perplexity':>16}" + "".join(f"{task:>16}" for task in TASKS[options.table]))
    for row, of_row in found.items():
        cells = [
            f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
            for values in of_row.values()
        ]
        own_perplexity = learned[ROWS[options.table][row][0]]
        print(f"{row:24}{own_perplexity:>16}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()
