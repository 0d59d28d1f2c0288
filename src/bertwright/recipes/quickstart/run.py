"""The steps of the quickstart: a corpus from this computer, a vocabulary, shards, a BERT, and a
page.

Each step is a function that returns the facts to print about it. `cli/quickstart.py` calls the
functions in turn and measures their time. The folder has:

| path | content |
|---|---|
| `corpus/` | the text and an index of its modules (`corpus.py`) |
| `tokenizer/` | the vocabulary |
| `shards/` | the text as ids |
| `run/` | the pre-training run: curves, checkpoints, `examples.json` |
| `task/` | labelled files made from the corpus (`task.py`) |
| `finetuned/` | the model fine-tuned on the largest of them |
| `report.html` | the page |
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertwright.atomic import disk_errors, held, parents_made, refuse_existing
from bertwright.config.corpus import CorpusConfig
from bertwright.config.run import CheckpointConfig, LogConfig, ValidationConfig
from bertwright.config.tokenizer import TokenizerConfig
from bertwright.data.build import build_shards
from bertwright.data.checkup import Checkup
from bertwright.data.doctor import check
from bertwright.data.shards import open_shards
from bertwright.data.split import split_documents
from bertwright.errors import ConfigError, DataError
from bertwright.models.bert.config import BertRun, InstanceConfig, MaskingConfig
from bertwright.progress import OnProgress, silent
from bertwright.recipes.configure import instances_of
from bertwright.recipes.quickstart.corpus import (
    DocsReport,
    corpus_files,
    read_index,
    write_python_docs,
)
from bertwright.report.read import read_run
from bertwright.text.corpus.read import read_documents
from bertwright.text.corpus.report import CorpusReport
from bertwright.text.tokenizer.train import train_tokenizer

MODEL = "bert-mini"
"""The preset that learns the most in five minutes on two cores; see `experiments`."""
VOCAB_SIZE = 8192
HELD_OUT = 0.1
SEED = 1

CORPUS = CorpusConfig(documents="blank-line", sentences="line")
MARK = "quickstart.json"


class Paths:
    """The paths of all parts of a quickstart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = folder / "corpus"
        self.text = corpus_files(self.corpus)[0]
        self.tokenizer = folder / "tokenizer"
        self.shards = folder / "shards"
        self.run = folder / "run"
        self.task = folder / "task"
        self.finetuned = folder / "finetuned"
        self.report = folder / "report.html"


@contextlib.contextmanager
def begin(folder: Path, overwrite: bool = False) -> Iterator[Paths]:
    """Create the folder, and keep other processes from using it while the block runs.

    With `overwrite`, the files of an earlier quickstart are deleted.

    Raises:
        ConfigError: the folder is not empty, or with `overwrite`, it is not that of a quickstart;
            or another process uses it.
    """
    refuse_existing(folder, overwrite)
    paths = Paths(folder)
    is_begun = folder.is_file() or (folder.is_dir() and any(folder.iterdir()))
    if is_begun and not (folder / MARK).is_file():
        raise ConfigError(
            f"{folder} holds something that is no quickstart (it has no {MARK}), so it is left "
            "as it is; choose another --out"
        )
    with disk_errors(folder), parents_made(folder):
        folder.mkdir(exist_ok=True)
        with held(folder, "running a quickstart in"):
            for name in ("corpus", "tokenizer", "shards", "run", "task", "finetuned"):
                shutil.rmtree(folder / name, ignore_errors=True)
            paths.report.unlink(missing_ok=True)
            (folder / MARK).write_text("{}\n", encoding="utf-8")
            try:
                yield paths
            except BaseException:
                with contextlib.suppress(OSError):  # the corpus is not empty: it has begun
                    if paths.corpus.is_dir():
                        paths.corpus.rmdir()
                    if [each.name for each in folder.iterdir()] == [MARK]:
                        (folder / MARK).unlink()
                        folder.rmdir()
                raise


def write_corpus(paths: Paths, on_progress: OnProgress = silent) -> DocsReport:
    """Write the corpus: the documentation that this Python contains, each module a document."""
    with disk_errors(paths.folder):
        return write_python_docs(paths.corpus, on_progress=on_progress)


def train_vocabulary(paths: Paths, on_progress: OnProgress = silent) -> int:
    """Train the vocabulary, and return its size."""
    config = TokenizerConfig(vocab_size=VOCAB_SIZE)
    tokenizer, _ = train_tokenizer([str(paths.text)], CORPUS, config, on_read=on_progress)
    with disk_errors(paths.folder):
        tokenizer.save(paths.tokenizer)
    return tokenizer.vocab_size


def build(paths: Paths, on_progress: OnProgress = silent) -> dict[str, Any]:
    """Write the shards, and return their counts."""
    manifest = build_shards(
        [str(paths.text)], paths.shards, paths.tokenizer, CORPUS, on_progress=on_progress
    )
    counts: dict[str, Any] = manifest["counts"]
    return counts


def check_data(paths: Paths, on_progress: OnProgress = silent) -> Checkup:
    """Check the shards, and return the findings."""
    instances = instances_of(configuration(paths, 1.0))
    return check(paths.shards, instances, on_progress=on_progress)


def configuration(paths: Paths, minutes: float) -> BertRun:
    """Return the configuration of the pre-training run.

    Keys that are not set here have the defaults of `bertwright pretrain`.
    """
    return BertRun(
        data=str(paths.shards),
        out=str(paths.run),
        model=MODEL,
        minutes=minutes,
        seed=SEED,
        # Shorter sequences and more masks than published give more predictions in the same time
        # (experiments/small_budget).
        instances=InstanceConfig(sequence_length=64),
        masking=MaskingConfig(probability=0.25),
        validation=ValidationConfig(
            fraction=HELD_OUT, hold_out="documents", tokens=32768, every_minutes=minutes / 10
        ),
        checkpoint=CheckpointConfig(keep=1),
        log=LogConfig(every_seconds=min(5.0, max(0.5, minutes))),
    )


def read_modules(
    paths: Paths, validation_fraction: float
) -> Iterator[tuple[dict[str, Any], Sequence[str], bool]]:
    """Yield each module of the corpus: its entry in the index, its sentences, and whether it is
    held out.

    Raises:
        DataError: the corpus and the shards do not belong together.
    """
    shards = open_shards(paths.shards)
    index = read_index(paths.corpus)
    if len(index) != shards.num_documents:
        raise DataError(
            f"{paths.shards} has {shards.num_documents} documents, the corpus {len(index)}: "
            "they do not belong together; run bertwright quickstart --overwrite"
        )
    held_out = set(split_documents(shards, "dev", validation_fraction).tolist())
    documents = read_documents([str(paths.text)], CORPUS, CorpusReport())
    for number, (entry, sentences) in enumerate(zip(index, documents, strict=True)):
        yield entry, sentences, number in held_out


def document_names(paths: Paths) -> list[tuple[str, str]]:
    """Return the module and the package of each document."""
    return [(entry["module"], package_of(entry)) for entry in read_index(paths.corpus)]


def package_of(entry: Mapping[str, Any]) -> str:
    """Return the package of an entry in the index; `python` for the standard library and the
    topics.
    """
    return str(entry["package"]) if entry["source"] == "packages" else "python"


def suggested_text(run: Path) -> str:
    """Return a text with a mask for trying the model, if possible one that it predicts right."""
    blanks = [
        blank
        for section in read_run(run).examples["sections"]
        for blank in section.get("blanks", [])
    ]
    right = [each for each in blanks if each["top"] and each["top"][0][0] == each["truth"]]
    (text, *_) = [each["text"] for each in (right or blanks)[-1:]] or [
        "Return the [MASK] of the array."
    ]
    return str(text)


def next_commands() -> list[str]:
    """Return the commands that repeat the steps with the user's own text and labels."""
    return [
        "bertwright tokenizer train corpus/ --vocab-size 16384 --out tokenizer",
        "bertwright data build corpus/ --tokenizer tokenizer --out shards",
        f"bertwright pretrain --data shards --model {MODEL} --minutes 30 --out runs/mine",
        "bertwright finetune classification --model runs/mine --train labelled.tsv --out runs/task",
        "bertwright compare corpus/ --train labelled.tsv --out runs/ladder",
    ]
