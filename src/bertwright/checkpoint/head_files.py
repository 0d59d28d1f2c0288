"""Where the weights of task heads lie in a folder, held against what `task.json` says of them.

One task whose head transformers knows lies in `model.safetensors` under transformers' names
(`huggingface_heads.py`). What has no name there (a CRF's scores, an LSTM, a mix of layers; every
head, if there are several or the model still has its pre-training heads) lies in
`heads.safetensors` under our names. Which tensors must be in which file follows from `task.json`
alone, so the set is closed: one that is missing, left over or of another shape is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from bertwright.checkpoint import sources
from bertwright.checkpoint.heads import listed, shapes
from bertwright.checkpoint.huggingface import heads as huggingface_heads
from bertwright.checkpoint.huggingface import model as huggingface
from bertwright.checkpoint.huggingface import names
from bertwright.checkpoint.huggingface.model import CONFIG, Header
from bertwright.checkpoint.sources import Headers
from bertwright.checkpoint.task_file import TASKS, read_tasks
from bertwright.config.bert import BertConfig
from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.bert import bert_spec

HEADS = "heads.safetensors"


class Placed(NamedTuple):
    """A learner's parameters, by the file they go to."""

    in_model: dict[str, Tensor]
    """For the model's weights, by Hugging Face's names, on the CPU."""
    beside: dict[str, Tensor]
    """For `heads.safetensors`, by our names, on the CPU."""
    keys: dict[str, Any]
    """For `config.json`: what it says of a head in the model's weights."""


class Found(NamedTuple):
    """The heads of a folder, held against what `task.json` says of them."""

    tasks: dict[str, TaskConfig]
    in_model: dict[str, list[names.Row]]
    """Rows in the model's weights, by task."""
    beside: list[names.Row]
    """Rows in `heads.safetensors`."""
    headers: dict[str, Header]
    """Of `heads.safetensors`."""


def place(
    parameters: Mapping[str, Tensor],
    config: BertConfig,
    tasks: Mapping[str, TaskConfig],
    pretrained: bool,
) -> Placed:
    """Which file each parameter goes to.

    Args:
        parameters: of a learner, by our names.
        config: of its BERT.
        tasks: of its task heads.
        pretrained: whether it has pre-training heads too.

    Raises:
        IntegrityError: a parameter has no place in the files, or is not there.
    """
    rows = rows_in_model(tasks, pretrained)
    held = {row.ours for part in rows.values() for row in part}
    prefixes = tuple(f"objectives.{name}." for name in tasks)
    beside = {
        name: value.detach().cpu().clone()
        for name, value in parameters.items()
        if name.startswith(prefixes) and name not in held
    }
    in_model = {name: value for name, value in parameters.items() if name not in beside}
    if any(not huggingface_heads.has_pooler(tasks[name]) for name in rows):
        in_model = {n: v for n, v in in_model.items() if not n.startswith("encoder.pooler.")}
    tensors = names.to_hugging_face(in_model, config.num_hidden_layers, rows)
    keys = [huggingface_heads.config_keys(tasks[name]) for name in rows]
    return Placed(tensors, beside, keys[0] if keys else {})


def find_heads(place: Path, config: BertConfig, headers: Headers) -> Found:
    """The heads of a place, before any is read.

    Args:
        place: of a model.
        config: of its BERT.
        headers: of its weights.

    Raises:
        DataError: `task.json`, or what `config.json` says of a task, cannot be used.
        IntegrityError: tensors of heads that are missing, left over or of another shape.
    """
    config_file = sources.config_file(place)
    content = huggingface.read_json(config_file)
    folder, its_config = config_file.parent, config_file.name
    tasks = read_tasks(folder, config.max_position_embeddings)
    source = TASKS
    if tasks is None:
        source = its_config
        derived = huggingface_heads.derived_task(content, config, str(config_file))
        tasks = {} if derived is None else {derived.kind: derived}
    try:
        expected = shapes(bert_spec(config), tasks)
    except ConfigError as error:
        raise DataError(f"{folder / source}: {error}") from error
    in_model = rows_in_model(tasks, any(name.startswith("cls.") for name in headers))
    there = {name for rows in in_model.values() for row in rows for name in row.theirs}
    if source != TASKS and not there & headers.keys():
        # transformers' name of a class, over an encoder that was saved without its head
        tasks, in_model, expected, there = {}, {}, {}, set()
    for name in in_model:
        told, wanted = content.get("architectures"), huggingface_heads.architecture(tasks[name])
        if told != [wanted]:
            raise IntegrityError(
                f"'architectures' in {config_file} is {huggingface.short(told)}; "
                f"its {source} asks for {wanted}"
            )
    _complain(folder, "lacks", [n for n in sorted(there) if n not in headers], source, in_model)
    theirs = {row.ours for rows in in_model.values() for row in rows}
    beside = [names.Row(name, (name,)) for name in expected if name not in theirs]
    heads = huggingface.headers_of(folder / HEADS) if (folder / HEADS).is_file() else {}
    ours = {row.ours for row in beside}
    if ours and not (folder / HEADS).is_file():
        raise IntegrityError(f"{folder} lacks {HEADS}; its {source} tells of {listed(tasks)}")
    _complain(folder / HEADS, "lacks", sorted(ours - heads.keys()), source, tasks)
    _complain(folder / HEADS, "has", sorted(heads.keys() - ours), source, tasks)
    held = [row for rows in in_model.values() for row in rows] + beside
    check_shapes(held, expected, {**headers, **heads}, folder, source)
    return Found(tasks, in_model, beside, heads)


def check_shapes(
    rows: Iterable[names.Row],
    expected: Mapping[str, tuple[int, ...]],
    headers: Headers,
    folder: Path,
    source: str = CONFIG,
) -> None:
    """Raise IntegrityError where a tensor has not the shape that `source` asks for."""
    for row in rows:
        shape = expected[row.ours]
        if len(row.theirs) > 1:  # stacked
            shape = (shape[0] // len(row.theirs), *shape[1:])
        for name in row.theirs:
            if headers[name].shape != shape:
                raise IntegrityError(
                    f"'{name}' in {folder} has the shape {list(headers[name].shape)}; "
                    f"its {source} asks for {list(shape)}"
                )


def report(
    of_model: names.Report, there: Found, tasks: Mapping[str, TaskConfig], started: list[str]
) -> names.Report:
    """The report of a model's weights, with the task heads in it.

    Args:
        of_model: what `names.match` found.
        there: the heads of the folder.
        tasks: the heads that are loaded.
        started: heads of all sorts that are new.
    """
    read: list[str] = []
    left: list[str] = []
    for name in there.tasks:
        prefix = f"objectives.{name}."
        rows = [*there.in_model.get(name, []), *there.beside]
        theirs = [t for row in rows if row.ours.startswith(prefix) for t in row.theirs]
        (read if name in tasks and name not in started else left).extend(theirs)
    parts = (*(part for part in of_model.parts if part in names.PARTS), *there.tasks)
    matched = [name for name in of_model.matched if name not in {*read, *left}]
    return names.Report(
        parts,
        (*matched, *read),
        of_model.missing,
        (*of_model.unused, *left),
        (*(() if "pooler" in parts else ("pooler",)), *started),
    )


def rows_in_model(tasks: Mapping[str, TaskConfig], pretrained: bool) -> dict[str, list[names.Row]]:
    """Rows of the heads that lie in the model's weights, by task.

    Args:
        tasks: of the folder.
        pretrained: whether it has pre-training heads too.
    """
    if len(tasks) != 1 or pretrained:
        return {}
    (name, task), *_ = tasks.items()
    if huggingface_heads.architecture(task) is None:
        return {}
    linear = huggingface_heads.linear_name(task)
    return {name: names.pair(f"objectives.{name}.{linear}", linear)}


def _complain(
    where: Path, what: str, tensors: list[str], source: str, tasks: Iterable[str]
) -> None:
    if tensors:
        raise IntegrityError(
            f"{where} {what} {names.quote(tensors)}; its {source} tells of {listed(tasks)}: "
            "the folder was changed after it was written, or files are of another model"
        )
