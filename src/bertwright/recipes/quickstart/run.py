"""The quickstart, step by step: text this machine has, vocabulary, shards, a BERT, its page.

Each step is a function that does one thing and gives what there is to tell of it;
`cli/quickstart.py` calls them in turn, times them and talks. In the folder:

| place | what |
|---|---|
| `corpus/` | the text and an index of its modules |
| `tokenizer/` | the vocabulary |
| `shards/` | the text as ids |
| `run/` | the pre-training run: curves, checkpoints, `doctor.json`, `examples.json` |
| `task/` | labelled files made of the corpus (`quickstart_task`) |
| `finetuned/` | the model fine-tuned on the most of them |
| `report.html` | the page |
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertwright.atomic import disk_errors, refuse_existing
from bertwright.config.bert_run import BertRun, InstanceConfig, MaskingConfig
from bertwright.config.corpus import CorpusConfig
from bertwright.config.run import CheckpointConfig, LogConfig, ValidationConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.data.build import build_shards
from bertwright.data.doctor import Checkup, check
from bertwright.data.shards import open_shards
from bertwright.data.split import split_documents
from bertwright.errors import ConfigError, DataError
from bertwright.progress import OnProgress, silent
from bertwright.recipes.quickstart.python_docs import (
    DocsReport,
    corpus_files,
    read_index,
    write_python_docs,
)
from bertwright.text.corpus.corpus import read_documents
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.vocabulary import train_tokenizer
from bertwright.train.log import read_records

MODEL = "bert-mini"
"""The model whose five minutes on two cores are worth most; see `experiments`."""
VOCAB_SIZE = 8192
HELD_OUT = 0.1
SEED = 1

CORPUS = CorpusConfig(documents="blank-line", sentences="line")
MARK = "quickstart.json"
FEW_STEPS = 30
"""After fewer, a model names hardly more masked tokens than whoever says the same of all."""


@dataclass(frozen=True)
class Places:
    """Where everything of a quickstart stands."""

    folder: Path

    @property
    def corpus(self) -> Path:
        """Text and index."""
        return self.folder / "corpus"

    @property
    def text(self) -> Path:
        """The text, a sentence a line."""
        return corpus_files(self.corpus)[0]

    @property
    def tokenizer(self) -> Path:
        """The vocabulary."""
        return self.folder / "tokenizer"

    @property
    def shards(self) -> Path:
        """The text as ids."""
        return self.folder / "shards"

    @property
    def run(self) -> Path:
        """The run."""
        return self.folder / "run"

    @property
    def task(self) -> Path:
        """Labelled files."""
        return self.folder / "task"

    @property
    def finetuned(self) -> Path:
        """The model fine-tuned on them."""
        return self.folder / "finetuned"

    @property
    def report(self) -> Path:
        """The page."""
        return self.folder / "report.html"


def begin(folder: Path, overwrite: bool = False) -> Places:
    """Make the folder; with `overwrite`, what an earlier quickstart left there goes.

    Raises:
        ConfigError: the folder holds something (with `overwrite`: that is no quickstart).
    """
    refuse_existing(folder, overwrite)
    places = Places(folder)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        if not (folder / MARK).is_file():
            raise ConfigError(
                f"{folder} holds something that is no quickstart (it has no {MARK}), so it is left "
                "as it is; choose another --out"
            )
        for name in ("corpus", "tokenizer", "shards", "run", "task", "finetuned"):
            shutil.rmtree(folder / name, ignore_errors=True)
        places.report.unlink(missing_ok=True)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_text("{}\n", encoding="utf-8")
    return places


def gather(
    places: Places, on_progress: OnProgress = silent, search: list[str] | None = None
) -> DocsReport:
    """Write the corpus: documentation that this Python holds, one module a document."""
    with disk_errors(places.folder):
        return write_python_docs(places.corpus, search=search, on_progress=on_progress)


def learn_vocabulary(places: Places, on_progress: OnProgress = silent) -> int:
    """Train the vocabulary; its size."""
    config = TokenizerConfig(vocab_size=VOCAB_SIZE)
    tokenizer, _ = train_tokenizer([str(places.text)], CORPUS, config, on_read=on_progress)
    with disk_errors(places.folder):
        tokenizer.save(places.tokenizer)
    return tokenizer.vocab_size


def build(places: Places, on_progress: OnProgress = silent) -> dict[str, Any]:
    """Write the shards; their counts."""
    manifest = build_shards(
        [str(places.text)], places.shards, places.tokenizer, CORPUS, on_progress=on_progress
    )
    counts: dict[str, Any] = manifest["counts"]
    return counts


def examine(places: Places, on_progress: OnProgress = silent) -> Checkup:
    """What the doctor says of the shards."""
    config = configuration(places, 1.0)
    return check(places.shards, config.instances, config.masking, on_progress=on_progress)


def configuration(places: Places, minutes: float) -> BertRun:
    """The run. What is not named here is as `bertwright pretrain` has it."""
    return BertRun(
        data=str(places.shards),
        out=str(places.run),
        model=MODEL,
        minutes=minutes,
        seed=SEED,
        # Short sequences and more masks than published: more to learn from in the same minutes
        # (experiments/small_budget).
        instances=InstanceConfig(sequence_length=64),
        masking=MaskingConfig(probability=0.25),
        validation=ValidationConfig(share=HELD_OUT, tokens=16384, every_minutes=minutes / 10),
        checkpoint=CheckpointConfig(keep=1),
        log=LogConfig(every_seconds=min(5.0, max(0.5, minutes))),
    )


def few_steps(places: Places) -> int | None:
    """The steps that the run took if they are fewer than `FEW_STEPS`, or None."""
    taken = int(read_records(places.run / "metrics.jsonl")[-1]["step"])
    return taken if taken < FEW_STEPS else None


def read_modules(
    places: Places, validation_share: float
) -> Iterator[tuple[dict[str, Any], Sequence[str], bool]]:
    """Each module of the corpus: its entry of the index, its sentences, whether it is held out.

    Raises:
        DataError: corpus and shards do not belong together.
    """
    shards = open_shards(places.shards)
    index = read_index(places.corpus)
    if len(index) != shards.num_documents:
        raise DataError(
            f"{places.shards} has {shards.num_documents} documents, the corpus {len(index)}: "
            "they do not belong together; run bertwright quickstart --overwrite"
        )
    held_out = set(split_documents(shards, "dev", validation_share).tolist())
    documents = read_documents([str(places.text)], CORPUS, CorpusReport())
    for number, (entry, sentences) in enumerate(zip(index, documents, strict=True)):
        yield entry, sentences, number in held_out


def keep_findings(places: Places, checkup: Checkup, found: dict[str, Any]) -> None:
    """Put what the page shows beside the run."""
    for name, value in (("doctor.json", checkup.as_dict()), ("examples.json", found)):
        text = json.dumps(value, indent=1, default=float)
        (places.run / name).write_text(text + "\n", encoding="utf-8")


def next_commands() -> list[str]:
    """What does the same for a text and labels of one's own."""
    return [
        "bertwright tokenizer train corpus/ --vocab-size 16384 --out tokenizer",
        "bertwright data build corpus/ --tokenizer tokenizer --out shards",
        f"bertwright pretrain --data shards --model {MODEL} --minutes 30 --out runs/mine",
        "bertwright finetune classification --model runs/mine --train labelled.tsv --out runs/task",
    ]
