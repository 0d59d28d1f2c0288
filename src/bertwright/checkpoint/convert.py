"""Convert a model to another stored format: read, write, compare.

| to | what is written |
|---|---|
| `huggingface` | `config.json`, `model.safetensors`, tokenizer files, `task.json`, other heads |
| `tensorflow` | `bert_config.json`, `vocab.txt`, `bert_model.ckpt.*` of google-research/bert |
| `sentence-transformers` | the encoder as for `huggingface`, with how vectors are made |
| `elmo` | `options.json`, `weights.hdf5` and the tokenizer |
| `word2vec`, `fasttext`, `arpa` | one file of word vectors, of a fastText model, of n-grams |

A part that the source lacks is left out. A folder that Bertwright loads is read back, and must
equal the source bit for bit before it gets its final name. The formats of other programs
(`formats/catalogue.py`) have no room for all that a model is, and are not compared.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from bertwright.atomic import (
    atomic_folder,
    atomic_path,
    disk_errors,
    refuse_existing,
    refuse_folder,
    refuse_source,
    write_manifest,
)
from bertwright.checkpoint import checkpoint, task_heads
from bertwright.checkpoint.average import average
from bertwright.checkpoint.formats.catalogue import ELMO, FILES, file_format
from bertwright.checkpoint.formats.format import FileFormat
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.checkpoint.sentence_transformers import cross_encoder
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.checkpoint.task_heads import HEADS
from bertwright.checkpoint.verify import check_links
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from bertwright.models.bert import tensorflow
from bertwright.models.load import system_of_config, system_that
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

Target = Literal[
    "huggingface", "tensorflow", "sentence-transformers", "elmo", "word2vec", "fasttext", "arpa"
]
"""The formats that are written. `inference/distill.py` writes tables of token vectors."""

_VOCABULARY = "vocab.txt"


@dataclass(frozen=True)
class Conversion:
    """A report of a conversion."""

    source: str
    source_format: str
    out: str
    to: Target
    parts: tuple[str, ...]
    """The parts that were written."""
    parameters: int
    matched: tuple[str, ...] = ()
    """The tensors of the source that were read, by their names there."""
    missing: tuple[str, ...] = ()
    """The tensors of parts that the source does not have; they are left out."""
    unused: tuple[str, ...] = ()
    """The tensors of the source that were not carried over."""
    left: tuple[str, ...] = ()
    """Descriptions of training state in the source (optimizer slots, the step)."""
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of the tensors that were written, by their names there."""
    notes: tuple[str, ...] = ()
    sizes: dict[str, Any] = field(default_factory=dict)
    """What a file of another program holds: words and width, or the numbers of n-grams."""


def convert(
    source: str | Path,
    out: str | Path,
    to: Target = "huggingface",
    overwrite: bool = False,
    vectors: Mapping[str, Any] | None = None,
    last: int | None = None,
) -> Conversion:
    """Write a model in another format.

    Args:
        source: a run, a checkpoint, a folder of any format that is read, a folder whose weights
            are `pytorch_model.bin` (`pickled.py`), or files of another program.
        overwrite: whether `out` may be replaced, if Bertwright wrote it.
        vectors: fields of `EmbeddingDefaults` to set, for sentence-transformers. The other fields
            are those of the source; without any, the mean is taken over as many tokens as the
            model has positions.
        last: the number of newest checkpoints whose mean is written; the source must be a run.
    """
    source, out = Path(source), Path(out)
    if to not in get_args(Target):
        raise ConfigError(f"to is {to!r}; expected one of {', '.join(get_args(Target))}")
    foreign, target = file_format(source), next((each for each in FILES if each.name == to), None)
    if last is not None and (target or foreign) and (target or foreign) is not ELMO:
        what = f"--to {to}" if foreign is None else f"a file of {foreign.described_as}"
        raise ConfigError(f"--average is for the checkpoints of a trained network, not for {what}")
    if foreign is not None and foreign is not ELMO:
        return _import(foreign, source, out, to, overwrite)
    if target is not None and target.suffixes:
        return _export(target, source, out, to, overwrite)
    refuse_source(out, source, "DST")
    refuse_folder(out, overwrite, "DST")
    with _without_pickles(source, out) as opened:
        refuse_source(out, opened.source, "DST")
        if target is not None:
            target.check(opened.config, source)
        elif to == "sentence-transformers":
            system_that(lambda system: system.is_padded, opened.config, f"a folder of {to}")
        elif to == "tensorflow":
            system_that(lambda system: to in system.layouts, opened.config, f"a folder of {to}")
        # In another format vectors are not described, so a part that is not read does not matter.
        defaults = _embedding(opened, vectors or {}) if to == "sentence-transformers" else None
        encoder_alone = to in ("sentence-transformers", "elmo")
        loaded = checkpoint.load(opened, objectives=[] if encoder_alone else None)
        given = dict(loaded.learner.state_dict())
        if last is not None:
            mean = average(source, last)
            given = {name: mean[name] for name in given}
            loaded.learner.load_state_dict(given)
        scores_pairs = bool(loaded.tasks) and opened.is_cross_encoder
        with atomic_folder(out, overwrite) as partial:
            notes = _write_tokenizer(opened, partial, to)
            if target is not None:
                shapes = target.write(loaded.learner, opened.tokenizer, partial)
            elif to == "tensorflow":
                shapes = _write_tensorflow(partial, loaded, given)
            else:
                checkpoint.save(partial, loaded.learner, None, "", tasks=loaded.tasks)
                shapes = _shapes_in(partial)
            if to == "huggingface" and not opened.trained_here:
                _say_trained_elsewhere(partial)
            if to == "huggingface" and scores_pairs:
                cross_encoder.mark(partial, loaded.tasks.values())
            if defaults is not None:
                sentence_transformers.write_defaults(partial, defaults, opened.config.hidden_size)
            _write_card(opened.folder, partial, source, to)
            if target is None:
                _compare(partial, given)
            write_manifest(partial)
        report = loaded.report
        dropped = [part for part in report.parts if part not in (*_parts(given), *report.started)]
        if dropped:
            notes.append(f"not carried over: {', '.join(dropped)}")
        if sentence_transformers.is_one(opened.folder) and defaults is None and not scores_pairs:
            kept = "; --to sentence-transformers keeps it" if opened.system.is_padded else ""
            notes.append(f"not carried over: how vectors are made{kept}")
        before = None if defaults is None else opened.embedding
        if before and before.dense and defaults and not defaults.dense:
            notes.append(f"not carried over: dense layers, as pooling is {defaults.pooling}")
    return Conversion(
        source=str(source),
        source_format=opened.format.name,
        out=str(out),
        to=to,
        parts=_parts(given),
        parameters=_count(given),
        matched=report.matched,
        missing=report.missing,
        unused=report.unused,
        left=report.left,
        shapes=shapes,
        notes=tuple(notes),
    )


def _import(
    foreign: FileFormat, source: Path, out: Path, to: Target, overwrite: bool
) -> Conversion:
    """Write the model in files of another program as a folder."""
    name = foreign.described_as
    if to != "huggingface":
        raise ConfigError(
            f"--to is {to}; {name} is converted to a folder first (--to huggingface), and the "
            "folder to other formats"
        )
    refuse_source(out, source, "DST")
    refuse_existing(out, overwrite, "DST")
    learner, tokenizer, sizes, notes = foreign.read(source)
    with atomic_folder(out, overwrite) as partial:
        tokenizer.save(partial)
        card = f"# {source.name}\n\nConverted by `bertwright convert`.\n"
        checkpoint.save(partial, learner, None, card)
        write_manifest(partial)
        shapes = _shapes_in(partial)
    parts, count = _parts(learner.state_dict()), _count(learner.state_dict())
    return Conversion(
        str(source), name, str(out), to, parts, count, shapes=shapes, notes=notes, sizes=sizes
    )


def _export(target: FileFormat, source: Path, out: Path, to: Target, overwrite: bool) -> Conversion:
    """Write a model as a file of another program."""
    if out.suffix not in target.suffixes:
        raise ConfigError(f"DST is {out}; expected a file with one of {', '.join(target.suffixes)}")
    refuse_existing(out, overwrite, "DST")
    opened = open_model(source)
    target.check(opened.config, source)
    learner = checkpoint.load(opened).learner
    with atomic_path(out, overwrite) as partial:
        sizes = target.write(learner, opened.tokenizer, partial, out.suffix)
    parts, count = _parts(learner.state_dict()), _count(learner.state_dict())
    return Conversion(str(source), opened.format.name, str(out), to, parts, count, sizes=sizes)


def _parts(state: Mapping[str, Tensor]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part_of(name) for name in state))


def _count(state: Mapping[str, Tensor]) -> int:
    return sum(value.numel() for value in state.values())


def _say_trained_elsewhere(folder: Path) -> None:
    """Remove the version from `config.json`, because it means that Bertwright trained the model."""
    content = read_json(folder / CONFIG)
    del content[VERSION_KEY]
    write_json(folder / CONFIG, content)


def _embedding(opened: Opened, requested: Mapping[str, Any]) -> EmbeddingDefaults:
    """Return how the vectors of a model are computed, with the requested fields. If the pooling
    changes, the dense layers and the number of dimensions are dropped, because they were trained on
    the other pooling."""
    known, longest = opened.embedding, opened.max_length
    if known is None:
        usual = EmbeddingDefaults()
        known = replace(usual, max_length=longest or usual.max_length)
    same_pooling = requested.get("pooling", known.pooling) == known.pooling
    dropped = {} if same_pooling else {"dense": (), "dimensions": None}
    defaults = replace(known, **{**dropped, **requested})
    length = defaults.max_length
    if length is not None and not 2 < length <= (longest or length):
        raise ConfigError(
            f"max_length is {length}; expected 3 to {longest}, the positions of this model"
        )
    return defaults


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
    if ELMO.recognize(source):
        learner = ELMO.read(source).learner
        with _folder_beside(out) as copy:
            checkpoint.save(copy, learner, source, f"# {source.name}\n")
            yield open_model(copy)
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


def _has_weights(folder: Path) -> bool:
    return any(
        path.name in (WEIGHTS, INDEX) or path.suffix == ".index" for path in folder.iterdir()
    )


def _shapes_in(folder: Path) -> dict[str, tuple[int, ...]]:
    files = [folder / name for name in (WEIGHTS, HEADS) if (folder / name).is_file()]
    return {name: x.shape for file in files for name, x in headers_of(file).items()}


def _write_tensorflow(
    folder: Path, loaded: checkpoint.Loaded, given: Mapping[str, Tensor]
) -> dict[str, tuple[int, ...]]:
    """Write the configuration, weights and tasks, and return the shapes of the written tensors."""
    config, tasks = loaded.config, loaded.tasks
    objectives = frozenset(name for name in loaded.learner.objectives if name not in tasks)
    system = system_of_config(config).in_layout("tensorflow")
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


def _write_tokenizer(opened: Opened, out: Path, to: Target) -> list[str]:
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


def _write_card(folder: Path, out: Path, source: Path, to: Target) -> None:
    card = folder / checkpoint.CARD
    if card.is_file():
        shutil.copyfile(card, out / checkpoint.CARD)
    else:
        text = f"# {source.name}\n\nConverted to {to} by `bertwright convert`.\n"
        (out / checkpoint.CARD).write_text(text, encoding="utf-8")


def _compare(folder: Path, given: Mapping[str, Tensor]) -> None:
    """Raise IntegrityError unless a written folder has the parameters that were given."""
    again = checkpoint.load(folder).learner.state_dict()
    for name, value in given.items():
        if name not in again or not torch.equal(again[name], value):
            raise IntegrityError(f"{name} was not written as it is; the disk may be damaged")
