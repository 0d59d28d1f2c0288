"""A model's folder in another format, with a report of every tensor.

| to | what is written |
|---|---|
| `huggingface` | `config.json`, `model.safetensors`, tokenizer files, `task.json`, other heads |
| `tensorflow` | `bert_config.json`, `vocab.txt`, `bert_model.ckpt.*` of google-research/bert |
| `sentence-transformers` | the encoder as for `huggingface`, with how vectors are made |

Nothing is invented: a part that the source lacks is left out. What was written is read back and
must be the same bit for bit before the folder takes its name.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
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
from bertwright.checkpoint import checkpoint, head_files, sources, task_file
from bertwright.checkpoint.huggingface import heads as huggingface_heads
from bertwright.checkpoint.huggingface import model as huggingface
from bertwright.checkpoint.huggingface import names, pickled
from bertwright.checkpoint.sentence_transformers import dense
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.sentence_transformers.folder import EmbeddingDefaults
from bertwright.checkpoint.tensorflow import model as tensorflow
from bertwright.config.bert import BertConfig
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from bertwright.text.tokenizer.tokenizer import load_tokenizer

Format = Literal["huggingface", "tensorflow", "sentence-transformers"]

_VOCABULARY = "vocab.txt"


@dataclass(frozen=True)
class Conversion:
    """What became of a model."""

    source: str
    source_format: str
    out: str
    to: Format
    parts: tuple[str, ...]
    """Parts that were written."""
    parameters: int
    matched: tuple[str, ...]
    """Tensors of the source that were read, by their names there."""
    missing: tuple[str, ...]
    """Tensors a BERT may have that the source has not; left out."""
    unused: tuple[str, ...]
    """Tensors of the source that were not carried over."""
    left: tuple[str, ...]
    """What training left in the source, in words."""
    shapes: dict[str, tuple[int, ...]]
    """Of what was written, by the names there."""
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As a mapping, for JSON."""
        return asdict(self)


def convert(
    source: str | Path,
    out: str | Path,
    to: Format = "huggingface",
    overwrite: bool = False,
    activation: Literal["gelu", "gelu_tanh"] | None = None,
    vectors: Mapping[str, Any] | None = None,
) -> Conversion:
    """Write a model in a format.

    Args:
        source: a run, a checkpoint, a folder of any format that is read, or one whose weights are
            `pytorch_model.bin` (`pickled.py`).
        out: the folder to write.
        to: the format.
        overwrite: whether `out` may be replaced, if Bertwright wrote it.
        activation: which GELU the source means; unset: what its configuration says.
        vectors: fields of `EmbeddingDefaults` to set, for sentence-transformers; the others are
            what the source says, or the mean over as many tokens as there are positions.

    Raises:
        ConfigError: `out` is there, is no folder of ours or holds the source; or the model has what
            the format has no place for.
        DataError, IntegrityError: as `checkpoint.load`; nothing is written.
    """
    source, out = Path(source), Path(out)
    if to not in get_args(Format):
        raise ConfigError(f"to is {to!r}; expected one of {', '.join(get_args(Format))}")
    refuse_source(out, source, "DST")
    refuse_folder(out, overwrite, "DST")
    with _readable(source, out) as (place, told):
        refuse_source(out, place, "DST")
        kind = sources.format_of(place)
        folder = sources.home(place)
        config = sources.read_config(place)
        if activation is not None:
            config = replace(config, hidden_act=activation)
        known = sentence_transformers.read_defaults(told)
        defaults = _with_asked(known or _plain(config), vectors or {})
        if not 2 < defaults.max_length <= config.max_position_embeddings:
            raise ConfigError(
                f"max_length is {defaults.max_length}; expected 3 to "
                f"{config.max_position_embeddings}, the positions of this BERT"
            )
        heads: Mapping[str, Any] = {"objectives": []} if to == "sentence-transformers" else {}
        loaded = checkpoint.load(place, config=config, **heads)
        given = dict(loaded.learner.state_dict())
        if "pooler" in loaded.report.started:
            given = {n: v for n, v in given.items() if not n.startswith("encoder.pooler.")}
        with atomic_folder(out, overwrite) as partial:
            notes = _write_tokenizer(folder, partial, config, to)
            shapes = _write_model(partial, loaded, given, to)
            if to == "sentence-transformers":
                with _without_pickles(defaults, out) as readable:
                    sentence_transformers.write_defaults(partial, readable, config.hidden_size)
            _write_card(folder, partial, source, to)
            _compare(partial, given)
            write_manifest(partial)
        report = loaded.report
        written = tuple(dict.fromkeys(names.part_of(name) for name in given))
        dropped = [part for part in report.parts if part not in (*written, *report.started)]
        if dropped:
            notes.append(f"not carried over: {', '.join(dropped)}")
        if known is not None and to != "sentence-transformers":
            notes.append(
                f"not carried over: how vectors are made ({known.pooling} of at most "
                f"{known.max_length} tokens{_also(known)}); --to sentence-transformers keeps it"
            )
        if known is not None and known.dense and not defaults.dense:
            notes.append(f"not carried over: dense layers, as pooling is {defaults.pooling}")
        if activation is None and sources.is_gelu_unclear(place):
            notes.append(
                "its gelu is taken for the error function, as published; if its training code "
                "had the tanh approximation, convert with --activation gelu_tanh"
            )
    return Conversion(
        str(source), kind, str(out), to, written, sum(v.numel() for v in given.values()),
        report.matched, report.missing, report.unused, report.left, shapes, tuple(notes),
    )  # fmt: skip


def _with_asked(known: EmbeddingDefaults, asked: Mapping[str, Any]) -> EmbeddingDefaults:
    """Dense layers and dimensions were taught on one pooling: with another they are left out."""
    own = asked.get("pooling", known.pooling) == known.pooling
    left = {} if own else {"dense": (), "dimensions": None}
    return replace(known, **{**left, **asked})


def _also(known: EmbeddingDefaults) -> str:
    """What else makes a vector, in words."""
    return "".join(
        f", {what}"
        for what, there in (
            ("with dense layers", known.dense),
            (f"cut to {known.dimensions} numbers", known.dimensions),
            ("normalized", known.normalize),
            ("with prompts", any(known.prompts.values())),
        )
        if there
    )


@contextmanager
def _without_pickles(defaults: EmbeddingDefaults, out: Path) -> Iterator[EmbeddingDefaults]:
    """The same, its dense layers in safetensors."""
    if not any(map(dense.is_pickled, defaults.dense)):
        yield defaults
        return
    with tempfile.TemporaryDirectory(
        prefix=f".{out.name}.pickle-", dir=out.absolute().parent
    ) as made:
        layers = []
        for number, layer in enumerate(defaults.dense):
            if dense.is_pickled(layer):
                folder = Path(made) / str(number)
                folder.mkdir()
                pickled.unpickle(pickled.pickles_of(layer.folder), folder / huggingface.WEIGHTS)
                layer = replace(layer, folder=folder)
            layers.append(layer)
        yield replace(defaults, dense=tuple(layers))


def _plain(config: BertConfig) -> EmbeddingDefaults:
    return EmbeddingDefaults(max_length=config.max_position_embeddings)


@contextmanager
def _readable(source: Path, out: Path) -> Iterator[tuple[Path, Path]]:
    """The place of a source, and the folder that tells how its vectors are made.

    Weights that are a pickle are first made a folder of safetensors.
    """
    if source.is_file() and source.name == pickled.NAME:
        source = source.parent
    elif source.is_file() and not source.name.endswith(".index") and pickled.is_pickle(source):
        raise DataError(
            f"{source} is a pickle, which may run code when opened; only one named "
            f"{pickled.NAME} is converted"
        )
    folder = sentence_transformers.model_folder(source) if source.is_dir() else source
    if not folder.is_dir() or _has_weights(folder) or not pickled.pickles_of(folder):
        place = checkpoint.find_checkpoint(source)
        yield place, sources.home(place)
        return
    sources.check_links(folder)
    sources.read_config(folder)  # what is no BERT is not opened
    with disk_errors(out):
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(
            prefix=f".{out.name}.pickle-", dir=out.absolute().parent
        ) as made:
            place = Path(made) / "model"
            place.mkdir()
            pickled.unpickle(pickled.pickles_of(folder), place / huggingface.WEIGHTS)
            for path in folder.iterdir():
                if path.is_file() and path.suffix in (".json", ".txt", ".md"):
                    shutil.copyfile(path, place / path.name)
            try:
                yield place, folder
            except BertwrightError as error:
                message = str(error).replace(str(place), str(folder))
                raise type(error)(message) from error


def _has_weights(folder: Path) -> bool:
    known = (huggingface.WEIGHTS, huggingface.INDEX)
    return any((folder / name).is_file() for name in known) or any(folder.glob("*.index"))


def _write_model(
    folder: Path, loaded: checkpoint.Loaded, given: Mapping[str, Tensor], to: Format
) -> dict[str, tuple[int, ...]]:
    """Configuration, weights and tasks; the shapes of what was written."""
    config, tasks = loaded.config, loaded.tasks
    objectives = frozenset(name for name in loaded.learner.objectives if name not in tasks)
    placed = head_files.place(given, config, tasks, bool(objectives))
    if to != "tensorflow":
        checkpoint.write_model(folder, config, placed, objectives, tasks)
        written = placed.in_model | placed.beside
        return {name: tuple(value.shape) for name, value in written.items()}
    for task in tasks.values():
        tensorflow.check_task_head(None if placed.beside else huggingface_heads.architecture(task))
    if tasks:
        task_file.write_tasks(folder, tasks)
    tensorflow.write(folder, placed.in_model)
    # google-research/bert knows one "gelu", and takes keys it does not know as they come
    keys = {**placed.keys, tensorflow.ACTIVATION: config.hidden_act, "hidden_act": "gelu"}
    huggingface.write_config(folder, config, objectives, huggingface.pad_id(folder), keys)
    (folder / huggingface.CONFIG).rename(folder / tensorflow.CONFIG)
    found, _ = tensorflow.read_places(folder / tensorflow.PREFIX, config.num_hidden_layers)
    return {place.name: place.entry.shape for place in found.values()}


def _write_tokenizer(folder: Path, out: Path, config: BertConfig, to: Format) -> list[str]:
    """The tokenizer's files, and what is to be said of them."""
    there = [name for name in huggingface.TOKENIZER_FILES if (folder / name).is_file()]
    if not {"tokenizer.json", _VOCABULARY} & set(there):
        return ["no tokenizer in the source, so none beside the model"]
    tokenizer = sources.read_tokenizer(folder, config)
    if to != "tensorflow":
        huggingface.copy_tokenizer(folder, out)
        return []
    tokenizer.save(out)
    for path in out.iterdir():
        if path.name != _VOCABULARY:
            path.unlink()
    rules = tokenizer.rules
    notes = [f"google-research/bert is to be run with --do_lower_case={rules.lowercase}"]
    if load_tokenizer(out).rules != rules:
        notes.append(
            f"{_VOCABULARY} alone does not tell how this tokenizer cuts text ({rules}); keep its "
            "other files"
        )
    return notes


def _write_card(folder: Path, out: Path, source: Path, to: Format) -> None:
    card = folder / checkpoint.CARD
    if card.is_file():
        shutil.copyfile(card, out / checkpoint.CARD)
    else:
        text = f"# {source.name}\n\nConverted to {to} by `bertwright convert`.\n"
        (out / checkpoint.CARD).write_text(text, encoding="utf-8")


def _compare(folder: Path, given: Mapping[str, Tensor]) -> None:
    """Read what was written, and hold it against what was to be written."""
    again = checkpoint.load(folder).learner.state_dict()
    for name, value in given.items():
        if name not in again or not torch.equal(again[name], value):
            raise IntegrityError(f"{name} was not written as it is; the disk may be damaged")
