"""Which system on the road to BERT suits a text and a task? Measured by `bertwright compare`.

    python experiments/road/run.py [--data DIR] [--out runs/road] [--minutes 12]
        [--task-minutes 60] [--task-seeds 1] [--tasks TREC-6 ...] [--systems bert ...]
        [--rows FILE] [--table]

Each system is pre-trained once on english-2 of DIR, and then used for each task. Every figure is a
line of FILE, which is `english-2.jsonl` beside this file; OUT is the folder of a comparison, and
what it holds is not done again. Pre-training needs a computer on which nothing else runs; fits to
their end do not, so once all systems are trained, copies of OUT can be used by several processes,
for other tasks each. `--table` prints what has been measured.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bertwright
from bertwright.machine import processor, usable_cores

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "finetuning"))
from lines import Lines
from speedrun.tasks import first_pairs

HERE = Path(__file__).resolve().parent
SYSTEMS = (
    *("ngram", "nnlm", "word2vec", "glove", "fasttext"),
    *("elmo", "awd-lstm", "gpt2", "bert-ltr", "bert"),
)
WAYS = ("frozen", "tuned", "random")
PAIRS = "pairs-40.jsonl"
"""The name of the file of minimal pairs: 40 of each paradigm of BLiMP."""
WORD_TESTS = {"WordSim-353": "EN-WS-353-ALL.txt", "MEN": "EN-MEN-TR-3k.txt"}


@dataclass(frozen=True)
class RoadTask:
    """A task: its files below the data folder, and how they are read."""

    kind: str
    train: str
    test: str
    most: int | None = None
    """The maximum number of labelled examples to learn from; None: all."""
    dev: str | None = None
    """The file that the epoch is chosen on; None: a tenth of `train`."""
    columns: Mapping[str, str] = field(default_factory=dict)


AG_NEWS = "classification/AG-News-10k"
TASKS = {
    "AG-News, 400": RoadTask("classification", f"{AG_NEWS}/train.tsv", f"{AG_NEWS}/test.tsv", 400),
    "AG-News, 10,000": RoadTask("classification", f"{AG_NEWS}/train.tsv", f"{AG_NEWS}/test.tsv"),
    "TREC-6": RoadTask(
        "classification", "classification/TREC-6/train.tsv", "classification/TREC-6/test.tsv"
    ),
    "CoNLL-2003, 3,000": RoadTask(
        "tagging",
        "tagging/CoNLL-2003/train.txt",
        "tagging/CoNLL-2003/test.txt",
        3000,
        "tagging/CoNLL-2003/dev.txt",
    ),
    "SICK": RoadTask(
        "classification",
        "pairs/SICK/train.tsv",
        "pairs/SICK/test.tsv",
        None,
        "pairs/SICK/dev.tsv",
        {"text": "sentence_A", "text2": "sentence_B", "label": "entailment_judgment"},
    ),
}


def write_part(task: RoadTask, data: Path, out: Path) -> Path:
    """Return the file to train on: that of the data, or one of `most` examples of it.

    Sentences of a tagging task are the first ones, so that documents stay whole; rows of a table
    are drawn at random.
    """
    whole = data / task.train
    if task.most is None:
        return whole
    text = whole.read_text(encoding="utf-8")
    if task.kind == "tagging":
        sentences = text.strip().split("\n\n")
        starts = sum(each.startswith("-DOCSTART-") for each in sentences[: task.most])
        part = "\n\n".join(sentences[: task.most + starts])
    else:
        header, *rows = text.splitlines()
        part = "\n".join([header, *random.Random(1).sample(rows, task.most)])
    path = out / f"{whole.parent.name}-{task.most}{whole.suffix}"
    path.write_text(part + "\n", encoding="utf-8")
    return path


def measure(name: str | None, given: argparse.Namespace, lines: Lines) -> None:
    """Compare the systems on a task, or without one if the name is None, and keep the figures."""
    labelled: dict[str, Any] = {}
    given.parts.mkdir(parents=True, exist_ok=True)
    if name is None:
        blimp = given.data / "language_modelling/blimp/pairs.jsonl.xz"
        words = given.data / "word_vectors"
        labelled["pairs"] = [str(first_pairs(blimp, 40, given.parts / PAIRS))]
        labelled["word_tests"] = [str(words / file) for file in WORD_TESTS.values()]
    else:
        task = TASKS[name]
        labelled = {
            "kind": task.kind,
            "train": str(write_part(task, given.data, given.parts)),
            "test": str(given.data / task.test),
            "dev": None if task.dev is None else str(given.data / task.dev),
            **task.columns,
        }
    ladder = bertwright.compare(
        str(given.data / "corpora/english-2.txt.xz"),
        out=given.out,
        systems=given.systems,
        minutes=given.minutes,
        task_minutes=given.task_minutes,
        lowercase=False,
        task_seeds=given.task_seeds,
        **labelled,
    )
    for row in ladder.rows:
        if (row["measure"] == "task") != (name is not None) or row["failed"]:
            continue
        key = {
            "task": name or "",
            **{each: row[each] for each in ("measure", "system", "way", "test", "seed", "metric")},
        }
        if lines.has(**key):
            continue
        facts = (
            *("title", "value", "low", "high", "reason", "parameters", "tokens", "passes"),
            *("seconds", "examples", "epochs", "rate", "waited", "degenerate"),
        )
        found = {each: row[each] for each in facts if row[each] not in (None, "")}
        lines.add(key | found | {"processor": processor(), "cores": usable_cores()})


def tables(lines: Lines) -> str:
    """Return what each system knows of text and words, and what it is worth for each task."""
    titles = {row["system"]: row["title"] for row in lines.records}
    trained = [name for name in (*SYSTEMS, "taglm") if name in titles]
    baselines = [name for name in titles if name not in trained]
    of_text = {
        "M tokens read": lines.select(task="", measure="pretrain"),
        "bits per character": lines.select(task="", metric="bits_per_character"),
        "BLiMP": lines.select(task="", measure="pairs", test=PAIRS),
        **{
            name: lines.select(task="", measure="words", test=test)
            for name, test in WORD_TESTS.items()
        },
        "senses": lines.select(task="", measure="senses"),
    }
    scales = {"M tokens read": 1e-6, "bits per character": 1.0}
    keys = {"M tokens read": "tokens"}
    text_rows = []
    for system in trained:
        cells = [
            figure(
                [row for row in rows if row["system"] == system],
                scales.get(name, 100.0),
                keys.get(name, "value"),
            )
            for name, rows in of_text.items()
        ]
        text_rows.append([titles[system], *cells])
    tasks = [name for name in TASKS if lines.has(task=name)]
    task_rows = []
    for system in [*trained, *baselines]:
        cells = []
        for task in tasks:
            rows = lines.select(task=task, measure="task", system=system)
            ways = WAYS if system in trained else ("baseline",)
            found = [figure([row for row in rows if row["way"] == way]) for way in ways]
            cells.append(" / ".join(each or "-" for each in found) if any(found) else "")
        if any(cells):
            task_rows.append([titles[system], *cells])
    return f"{_markdown(list(of_text), text_rows)}\n\n{_markdown(tasks, task_rows)}"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, whose first column has no title."""
    lines = [["", *columns], ["---"] * (len(columns) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figure(found: Sequence[Mapping[str, Any]], scale: float = 100.0, key: str = "value") -> str:
    """Return the mean of a figure over seeds; empty: there is none."""
    values = [scale * row[key] for row in found if row.get(key) is not None]
    return f"{sum(values) / len(values):.{2 if scale == 1 else 1}f}" if values else ""


def main() -> None:
    """Measure what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    shared = Path(os.environ.get("BERTWRIGHT_SHARED", "../shared"))
    parser.add_argument("--data", type=Path, default=shared / "data")
    parser.add_argument("--out", type=Path, default=Path("runs/road"))
    parser.add_argument("--parts", type=Path, default=Path("runs/road-tasks"))
    parser.add_argument("--minutes", type=float, default=12.0, help="of pre-training a system")
    parser.add_argument("--task-minutes", type=float, default=60.0, help="at most, of a fit")
    parser.add_argument("--task-seeds", type=int, default=1)
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--systems", nargs="+", choices=[*SYSTEMS, "taglm"], default=SYSTEMS)
    parser.add_argument("--rows", type=Path, default=HERE / "english-2.jsonl")
    parser.add_argument("--table", action="store_true", help="print what has been measured")
    given = parser.parse_args()
    lines = Lines(given.rows)
    if not given.table:
        for name in [None, *given.tasks]:
            measure(name, given, lines)
    print(tables(lines))


if __name__ == "__main__":
    main()
