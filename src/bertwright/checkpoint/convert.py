"""Convert a model's folder to another format, and report every tensor.

| to | what is written |
|---|---|
| `huggingface` | `config.json`, `model.safetensors`, tokenizer files, `task.json`, other heads |
| `tensorflow` | `bert_config.json`, `vocab.txt`, `bert_model.ckpt.*` of google-research/bert |
| `sentence-transformers` | the encoder as for `huggingface`, with how vectors are made |
| `elmo` | `options.json`, `weights.hdf5` and the tokenizer |

A part that the source lacks is left out. Except for `elmo`, the result is read back and must equal
the source bit for bit before the folder gets its final name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from bertwright.atomic import (
    atomic_folder,
    disk_errors,
    refuse_folder,
    refuse_source,
    write_manifest,
)
from bertwright.checkpoint import checkpoint, elmo_folder, task_heads
from bertwright.checkpoint.average import average
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.checkpoint.sentence_transformers import cross_encoder
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.checkpoint.task_heads import HEADS
from bertwright.checkpoint.verify import check_links, verify_folder
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from bertwright.models.bert import tensorflow
from bertwright.models.elmo.config import ElmoConfig
from bertwright.models.load import system_of_config, system_that
from bertwright.nn.objective import Learner
from bertwright.storage import model_folder, pickled
from bertwright.storage.model_folder import (
    BERT_CONFIG,
    CONFIG,
    INDEX,
    TOKENIZER_FILES,
    VERSION_KEY,
    WEIGHTS,
    headers_of,
    read_json,
    write_json,
)
from bertwright.storage.tensor_names import part_of
from bertwright.text.tokenizer.files import place_of_tokenizer
from bertwright.text.tokenizer.tokenizer import load_tokenizer

Layout = Literal["huggingface", "tensorflow", "sentence-transformers", "elmo"]

_VOCABULARY = "vocab.txt"


@dataclass(frozen=True)
class Conversion:
    """A report of a conversion."""

    source: str
    source_format: str
    out: str
    to: Layout
    parts: tuple[str, ...]
    """The parts that were written."""
    parameters: int
    matched: tuple[str, ...]
    """The tensors of the source that were read, by their names there."""
    missing: tuple[str, ...]
    """The tensors of parts that the source does not have; they are left out."""
    unused: tuple[str, ...]
    """The tensors of the source that were not carried over."""
    left: tuple[str, ...]
    """Descriptions of training state in the source (optimizer slots, the step)."""
    shapes: dict[str, tuple[int, ...]]
    """The shapes of the tensors that were written, by their names there."""
    notes: tuple[str, ...]


def convert(
    source: str | Path,
    out: str | Path,
    to: Layout = "huggingface",
    overwrite: bool = False,
    vectors: Mapping[str, Any] | None = None,
    last: int | None = None,
) -> Conversion:
    """Write a model in another format.

    Args:
        source: a run, a checkpoint, a folder of any format that is read, or a folder whose weights
            are `pytorch_model.bin` (`pickled.py`).
        out: the folder to write.
        to: the format.
        overwrite: whether `out` may be replaced, if Bertwright wrote it.
        vectors: fields of `EmbeddingDefaults` to set, for sentence-transformers. The other fields
            are those of the source; without any, the mean is taken over as many tokens as the
            model has positions.
        last: the number of newest checkpoints whose mean is written; the source must be a run.

    Raises:
        ConfigError: `out` exists, was not written by Bertwright or holds the source; or the format
            cannot hold the model.
        DataError, IntegrityError: as for `checkpoint.load`; nothing is written.
    """
    source, out = Path(source), Path(out)
    if to not in get_args(Layout):
        raise ConfigError(f"to is {to!r}; expected one of {', '.join(get_args(Layout))}")
    refuse_source(out, source, "DST")
    refuse_folder(out, overwrite, "DST")
    with _without_pickles(source, out) as opened:
        refuse_source(out, opened.source, "DST")
        folder, config = opened.folder, opened.config
        if to == "elmo":
            if not isinstance(config, ElmoConfig):
                kind = system_of_config(config).row.name
                raise ConfigError(f"a folder of elmo is for ELMo only; this model is a {kind}")
        elif to == "sentence-transformers":
            system_that(lambda system: system.is_padded, config, f"a folder of {to}")
        elif to != "huggingface":
            system_that(lambda system: to in system.layouts, config, f"a folder of {to}")
        # In another format vectors are not described, so a part that is not read does not matter.
        of_vectors = to == "sentence-transformers"
        known = opened.embedding if of_vectors else None
        defaults = _with_requested(known or EmbeddingDefaults(), vectors or {})
        longest = opened.max_length
        if known is None and "max_length" not in (vectors or {}):
            defaults = replace(defaults, max_length=longest or defaults.max_length)
        length = defaults.max_length
        if of_vectors and length is not None and not 2 < length <= (longest or length):
            raise ConfigError(
                f"max_length is {length}; expected 3 to {longest}, the positions of this model"
            )
        encoder_alone = to in ("sentence-transformers", "elmo")
        heads: Mapping[str, Any] = {"objectives": []} if encoder_alone else {}
        loaded = checkpoint.load(opened, **heads)
        given = dict(loaded.learner.state_dict())
        if last is not None:
            mean = average(source, last)
            given = {name: mean[name] for name in given}
        scores_pairs = bool(loaded.tasks) and opened.is_cross_encoder
        with atomic_folder(out, overwrite) as partial:
            notes = _write_tokenizer(opened, partial, to)
            shapes = _write_model(partial, loaded, given, to)
            if to == "huggingface" and not opened.trained_here:
                _say_trained_elsewhere(partial)
            if to == "huggingface" and scores_pairs:
                cross_encoder.mark(partial, loaded.tasks.values())
            if to == "sentence-transformers":
                sentence_transformers.write_defaults(partial, defaults, config.hidden_size)
            _write_card(folder, partial, source, to)
            if to != "elmo":
                _compare(partial, given)
            write_manifest(partial)
        report = loaded.report
        written = tuple(dict.fromkeys(part_of(name) for name in given))
        dropped = [part for part in report.parts if part not in (*written, *report.started)]
        if dropped:
            notes.append(f"not carried over: {', '.join(dropped)}")
        if sentence_transformers.is_one(folder) and not (of_vectors or scores_pairs):
            kept = "; --to sentence-transformers keeps it"
            kept = kept if system_of_config(config).is_padded else ""
            notes.append(f"not carried over: how vectors are made{kept}")
        if known is not None and known.dense and not defaults.dense:
            notes.append(f"not carried over: dense layers, as pooling is {defaults.pooling}")
    return Conversion(
        str(source), opened.adapter.name, str(out), to, written,
        sum(v.numel() for v in given.values()), report.matched, report.missing, report.unused,
        report.left, shapes, tuple(notes),
    )  # fmt: skip


def _say_trained_elsewhere(folder: Path) -> None:
    """Remove the version from `config.json`, because it means that Bertwright trained the model."""
    content = read_json(folder / CONFIG)
    del content[VERSION_KEY]
    write_json(folder / CONFIG, content)


def _with_requested(known: EmbeddingDefaults, requested: Mapping[str, Any]) -> EmbeddingDefaults:
    """Return the defaults with the requested fields. If the pooling changes, the dense layers and
    the number of dimensions are dropped, because they were trained on the other pooling."""
    own = requested.get("pooling", known.pooling) == known.pooling
    left = {} if own else {"dense": (), "dimensions": None}
    return replace(known, **{**left, **requested})


@contextmanager
def _without_pickles(source: Path, out: Path) -> Iterator[Opened]:
    """Yield the model at a source, or a temporary copy of it in which pickles, or ELMo's published
    files, are converted to safetensors."""
    if source.is_file() and source.name == pickled.NAME:
        source = source.parent
    elif source.is_file() and not source.name.endswith(".index") and pickled.is_pickle(source):
        raise DataError(
            f"{source} is a pickle, which may run code when opened; only one named "
            f"{pickled.NAME} is converted"
        )
    if source.is_dir() and elmo_folder.is_published(source):
        with _with_our_files(source, out) as found:
            yield open_model(found)
        return
    folders = sentence_transformers.folders_of(source) if source.is_dir() else []
    pickles = {x: pickled.pickles_of(x) for x in folders if not _has_weights(x)}
    if not any(pickles.values()):
        yield open_model(source)
        return
    root = folders[0]
    check_links(root)
    _ = open_model(root).config  # no pickle is opened unless this succeeds
    with _folder_beside(out) as copy:
        for folder in folders:
            target = copy / folder.relative_to(root)
            target.mkdir(exist_ok=True)
            for path in folder.iterdir():
                if path.name == WEIGHTS or path.suffix in (".json", ".txt", ".md"):
                    shutil.copyfile(path, target / path.name)
            if pickles.get(folder):
                pickled.unpickle(pickles[folder], target / WEIGHTS)
        try:
            yield open_model(copy)
        except BertwrightError as error:
            raise type(error)(str(error).replace(str(copy), str(root))) from error


@contextmanager
def _folder_beside(out: Path) -> Iterator[Path]:
    """Yield a temporary folder on the disk of `out`. If the process is killed, the next one that
    writes `out` removes the folder."""
    made = out.absolute().with_name(f".{out.name}.read-{os.getpid()}")
    with disk_errors(out):
        made.mkdir(parents=True)
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _with_our_files(source: Path, out: Path) -> Iterator[Path]:
    """Yield a temporary copy of a folder of ELMo's published files, saved as Bertwright saves a
    model."""
    if not {"tokenizer.json", _VOCABULARY} & {path.name for path in source.iterdir()}:
        raise DataError(
            f"{source} has no tokenizer.json: ELMo's files have no vocabulary; copy into it the "
            "tokenizer of your text (bertwright tokenizer train --algorithm word)"
        )
    verify_folder(source)
    encoder = elmo_folder.read(source, load_tokenizer(source))
    with _folder_beside(out) as folder:
        checkpoint.save(folder, Learner(encoder, {}), source, f"# {source.name}\n")
        yield folder


def _has_weights(folder: Path) -> bool:
    return any(
        path.name in (WEIGHTS, INDEX) or path.suffix == ".index" for path in folder.iterdir()
    )


def _write_model(
    folder: Path, loaded: checkpoint.Loaded, given: Mapping[str, Tensor], to: Layout
) -> dict[str, tuple[int, ...]]:
    """Write the configuration, weights and tasks, and return the shapes of the written tensors."""
    config, tasks = loaded.config, loaded.tasks
    if to == "elmo":
        own = {n.removeprefix("encoder."): x for n, x in given.items()}
        return elmo_folder.write(folder, config, own)
    if to != "tensorflow":
        checkpoint.save(folder, loaded.learner, None, "", state=given, tasks=tasks)
        files = [folder / name for name in (WEIGHTS, HEADS) if (folder / name).is_file()]
        return {name: x.shape for file in files for name, x in headers_of(file).items()}
    objectives = frozenset(name for name in loaded.learner.objectives if name not in tasks)
    system = system_of_config(config).in_layout(to)
    tensors = task_heads.tensors_to_save(given, system, config, tasks, bool(objectives))
    pooled = system.spec(config).pooled
    for task in tasks.values():
        architecture = system.names.task_architecture(task, pooled)
        tensorflow.check_task_head(None if tensors.in_heads else architecture)
    if tasks:
        task_heads.write_tasks(folder, tasks)
    tensorflow.write(folder, tensors.in_model)
    # google-research/bert has only one "gelu" and ignores keys that it does not know.
    keys = {**tensors.keys, tensorflow.ACTIVATION: config.hidden_act, "hidden_act": "gelu"}
    checkpoint.write_config(folder, config, objectives, keys)
    (folder / CONFIG).rename(folder / BERT_CONFIG)
    return {name: tuple(x.shape) for name, x in tensors.in_model.items()}


def _write_tokenizer(opened: Opened, out: Path, to: Layout) -> list[str]:
    """Write the files of the tokenizer, and return notes about them for the user."""
    folder = place_of_tokenizer(opened.folder)
    present = [name for name in TOKENIZER_FILES if (folder / name).is_file()]
    if not {"tokenizer.json", _VOCABULARY, "vocab.json"} & set(present):
        return ["no tokenizer in the source, so none beside the model"]
    tokenizer = opened.tokenizer
    if to != "tensorflow":
        model_folder.copy_tokenizer(folder, out, opened.spec.max_length)
        return []
    tokenizer.save(out)
    for path in out.iterdir():
        if path.name != _VOCABULARY:
            path.unlink()
    rules = tokenizer.rules
    notes = [f"google-research/bert is to be run with --do_lower_case={rules.lowercase}"]
    if load_tokenizer(out).rules != rules:
        notes.append(
            f"{_VOCABULARY} alone does not tell how this tokenizer splits text ({rules}); keep its "
            "other files"
        )
    return notes


def _write_card(folder: Path, out: Path, source: Path, to: Layout) -> None:
    card = folder / checkpoint.CARD
    if card.is_file():
        shutil.copyfile(card, out / checkpoint.CARD)
    else:
        text = f"# {source.name}\n\nConverted to {to} by `bertwright convert`.\n"
        (out / checkpoint.CARD).write_text(text, encoding="utf-8")


def _compare(folder: Path, given: Mapping[str, Tensor]) -> None:
    """Read a written folder, and compare its parameters with those that were given.

    Raises:
        IntegrityError: a parameter is missing or differs.
    """
    again = checkpoint.load(folder).learner.state_dict()
    for name, value in given.items():
        if name not in again or not torch.equal(again[name], value):
            raise IntegrityError(f"{name} was not written as it is; the disk may be damaged")
