"""Task heads: their tasks (`task.json`), the files of their weights, and their initialization.

```
{"format": 1, "tasks": {"sentiment": {"kind": "classification", "labels": ["bad", "good"], ...}}}
```

A task is a `TaskConfig` written as a mapping. Like `config.json`, the file is not trusted: unknown
keys are an error, and sizes are checked before memory is allocated for any head.

If a model has a single task and the format has names for its head (for a BERT, those of
transformers in `models/bert/huggingface.py`), the head is in `model.safetensors`. Everything else
(the scores of a CRF, an LSTM, a mix of layers; all heads, if there are several or if the model
still has its pre-training heads) is in `heads.safetensors` under our names. `task.json` alone
determines which tensors must be in which file: a tensor that is missing, left over or of another
shape is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from bertwright.checkpoint.formats.format import Headers
from bertwright.checkpoint.sentence_transformers.cross_encoder import with_activation
from bertwright.config.task import TaskConfig
from bertwright.config.values import to_dict
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.system import System
from bertwright.nn.encoder import EncoderSpec
from bertwright.nn.init import initialize
from bertwright.nn.layers.characters import CharacterCnn
from bertwright.storage.model_folder import CONFIG, Header, headers_of, read_json, short
from bertwright.storage.tensor_names import (
    ParameterMapping,
    Parts,
    clipped,
    part_of,
    quote,
    to_foreign,
    with_heads,
)
from bertwright.tasks.catalogue import check_kind, kind_of, make_task
from bertwright.tasks.head import Head

TASKS = "task.json"
TAKEN = "no task can be named {!r}: choose another name"
HEADS = "heads.safetensors"

_FORMAT = 1
_MOST_TASKS = 1_000

Module = TypeVar("Module", bound=nn.Module)


class TensorsToSave(NamedTuple):
    """The parameters of a learner, by the file that they are written to."""

    in_model: dict[str, Tensor]
    """The tensors of the model's weights file, by the names of the format, on the CPU."""
    in_heads: dict[str, Tensor]
    """The tensors of `heads.safetensors`, by our names, on the CPU."""
    keys: dict[str, Any]
    """The keys of `config.json` that describe a head in the model's weights."""


class FoundHeads(NamedTuple):
    """The task heads of a folder, checked against `task.json`; no weights are read yet."""

    tasks: dict[str, TaskConfig]
    parts: Parts
    """The parameters of the heads, by task."""
    headers: dict[str, Header]
    """The headers of the tensors in `heads.safetensors`."""


def make_head(spec: EncoderSpec, task: TaskConfig) -> Head[Any]:
    """Return a new head for a task, as `torch.nn` initializes it."""
    return kind_of(task.kind).head(spec, task)


def initialized(make: Callable[[], Module], std: float, generator: torch.Generator) -> Module:
    """Return a new head on the CPU. Its linear layers are initialized like those of an encoder,
    with the standard deviation `std`; all other modules initialize themselves. All random numbers
    come from `generator`."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # only the CPU's: a GPU's would not be restored
        head = make()
    initialize(head, std, generator)
    for part in head.modules():
        if isinstance(part, CharacterCnn):
            part.reset_parameters(generator)
    return head


def shapes(spec: EncoderSpec, tasks: Mapping[str, TaskConfig]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all parameters of task heads, by our names in a learner, without
    allocating memory for them.

    Raises:
        ConfigError: the encoder cannot have one of the heads, or a head is too large for torch.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, task in tasks.items():
        try:
            with torch.device("meta"):
                found |= _shapes_of(name, make_head(spec, task))
        except RuntimeError as error:
            raise ConfigError(f"the head of task {name} is too large ({error})") from error
    return found


def _shapes_of(name: str, head: nn.Module) -> dict[str, tuple[int, ...]]:
    return {f"objectives.{name}.{k}": tuple(x.shape) for k, x in head.state_dict().items()}


def check_heads(
    made: Mapping[str, nn.Module], spec: EncoderSpec, tasks: Mapping[str, TaskConfig]
) -> None:
    """Raise ConfigError unless tasks match the heads of a learner, so that what is saved can be
    loaded."""
    if made.keys() != tasks.keys():
        raise ConfigError(f"the learner has {listed(made)}; expected {listed(tasks)}, as `tasks`")
    check_tasks(tasks, spec)
    for name, task in tasks.items():
        found, expected = _shapes_of(name, made[name]), shapes(spec, {name: task})
        if found != expected:
            raise ConfigError(
                f"the head of task {name} has the shapes {found}; its task asks for {expected}"
            )


def same_head(a: TaskConfig, b: TaskConfig) -> bool:
    """Return whether one task can use the weights of the other's head, because the kind, the labels
    and all settings that determine the weights are the same."""
    return _signature(a) == _signature(b)


def _signature(task: TaskConfig) -> tuple[object, ...]:
    """Return the settings of a task that determine its head's weights."""
    head = replace(task.head, dropout=0.0)
    if head.network == "linear":
        head = replace(head, network_size=1)
    of_tokens = kind_of(task.kind).scores_tokens
    if of_tokens or head.layers is None or head.network != "linear":
        head = replace(head, pooling="mean", frame=(0, 0))
    if of_tokens and head.layers == "last":
        head = replace(head, layers=None)
    return task.kind, task.labels, head, task.of_weights()


def tensors_to_save(
    parameters: Mapping[str, Tensor],
    system: System,
    config: Any,
    tasks: Mapping[str, TaskConfig],
    pretrained: bool,
) -> TensorsToSave:
    """Return the parameters of a learner, divided by the file that they are written to.

    Args:
        parameters: the parameters of the learner, by our names.
        system: the system of its encoder, in the layout to write.
        pretrained: whether it also has pre-training heads.
    """
    parts = system.names.task_parts(tasks, pretrained, system.spec(config).pooled)
    named = {mapping.ours for mappings in parts.values() for mapping in mappings}
    prefixes = tuple(f"objectives.{name}." for name in tasks)
    in_heads = {
        name: value.detach().cpu().clone()
        for name, value in parameters.items()
        if name.startswith(prefixes) and name not in named
    }
    rest = {name: value for name, value in parameters.items() if name not in in_heads}
    if any(tasks[name].kind in system.names.without_pooler for name in parts):
        rest = {name: v for name, v in rest.items() if not name.startswith("encoder.pooler.")}
    keys = [system.names.task_keys(tasks[name]) for name in parts]
    in_model = to_foreign(rest, with_heads(system.mappings(config), parts))
    return TensorsToSave(in_model, in_heads, keys[0] if keys else {})


def find_heads(
    config_file: Path,
    content: Mapping[str, Any],
    system: System,
    config: Any,
    parts: Parts,
    headers: Headers,
) -> FoundHeads:
    """Return the task heads of a folder, before any of their weights are read.

    Args:
        config_file: the configuration file of the folder.
        parts: the mappings of the model, without task heads.
    """
    folder, spec = config_file.parent, system.spec(config)
    tasks, told_by = read_tasks(folder, spec), TASKS
    if tasks is None:
        told_by = config_file.name
        tasks = {}
        written = system.names.derived_task(content, config, config_file)
        if written is not None:
            try:
                derived = make_task(written)
            except ConfigError as error:
                raise DataError(f"{config_file}: {error}") from error
            tasks = {derived.kind: with_activation(derived, folder, content)}
    try:
        expected = shapes(spec, tasks)
    except ConfigError as error:
        raise DataError(f"{folder / told_by}: {error}") from error
    pretrained = {
        name for part in system.objectives for row in parts.get(part, ()) for name in row.theirs
    }.difference(system.names.shared)
    has_objectives = not pretrained.isdisjoint(headers)
    in_model = system.names.task_parts(tasks, has_objectives, spec.pooled)
    tensors = {name for each in in_model.values() for mapping in each for name in mapping.theirs}
    if told_by != TASKS and not tensors & headers.keys():
        # `config.json` has a class of transformers, but the encoder was saved without the head.
        tasks, in_model, expected, tensors = {}, {}, {}, set()
    for name in in_model:
        found, wanted = (
            content.get("architectures"),
            system.names.task_keys(tasks[name])["architectures"],
        )
        if found != wanted:
            raise IntegrityError(
                f"'architectures' in {config_file} is {short(found)}; its {told_by} asks for "
                f"{wanted[0]}"
            )
    found_parts: Parts = {name: list(in_model.get(name, [])) for name in tasks}
    ours = expected.keys() - {mapping.ours for each in in_model.values() for mapping in each}
    for name in expected:
        if name in ours:
            found_parts[part_of(name)].append(ParameterMapping(name, (name,)))
    file = folder / HEADS
    if ours and not file.is_file():
        raise IntegrityError(f"{folder} lacks {HEADS}; its {told_by} lists {listed(tasks)}")
    heads = headers_of(file) if file.is_file() else {}
    for where, what, wrong in (
        (folder, "lacks", tensors - headers.keys()),
        (file, "lacks", ours - heads.keys()),
        (file, "has", heads.keys() - ours),
    ):
        if wrong:
            raise IntegrityError(
                f"{where} {what} {quote(sorted(wrong))}; its {told_by} lists {listed(tasks)}: the "
                "folder was changed after it was written, or files are of another model"
            )
    mappings = [
        mapping for each in found_parts.values() for mapping in each if mapping.ours in expected
    ]  # a pooler that is stored with a head is checked with the encoder
    check_shapes(mappings, expected, {**headers, **heads}, folder, told_by)
    return FoundHeads(tasks, found_parts, heads)


def check_shapes(
    mappings: Iterable[ParameterMapping],
    expected: Mapping[str, tuple[int, ...]],
    headers: Headers,
    folder: Path,
    told_by: str = CONFIG,
) -> None:
    """Raise IntegrityError if a tensor does not have the shape that the file `told_by` requires."""
    for ours, theirs, transposed in mappings:
        shape = expected[ours]
        if len(theirs) > 1:  # the file holds the rows in several tensors
            shape = (shape[0] // len(theirs), *shape[1:])
        shape = shape[::-1] if transposed else shape
        for name in theirs:
            if headers[name].shape != shape:
                raise IntegrityError(
                    f"'{name}' in {folder} has the shape {list(headers[name].shape)}; "
                    f"its {told_by} asks for {list(shape)}"
                )


def check_tasks(tasks: Mapping[str, TaskConfig], spec: EncoderSpec) -> None:
    """Raise ConfigError unless tasks have allowed names and an encoder can perform them."""
    _check_names(tasks)
    for task in tasks.values():
        check_kind(task.kind)
        if spec.max_length is not None and task.max_length > spec.max_length:
            raise ConfigError(
                f"max_length is {task.max_length}; this model has positions for {spec.max_length}"
            )
        task.check_saved()


def _check_names(names: Iterable[str]) -> None:
    """Raise ConfigError unless names can be part of the names of tensors and modules."""
    reserved = {"encoder", "pooler", "training"}
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
            raise ConfigError(
                f"a task is named {short(name)}; expected letters, digits, - and _, 64 at most"
            )
        if name in reserved or hasattr(nn.ModuleDict, name):
            raise ConfigError(TAKEN.format(name))


def write_tasks(folder: Path, tasks: Mapping[str, TaskConfig]) -> None:
    """Write `task.json`. The tasks must have passed `check_heads`."""
    given = {name: to_dict(task) for name, task in tasks.items()}
    content = {"format": _FORMAT, "tasks": given}
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / TASKS).write_text(text + "\n", encoding="utf-8")


def read_tasks(folder: Path, spec: EncoderSpec) -> dict[str, TaskConfig] | None:
    """Return the tasks of a folder by name; None if it has no `task.json`.

    Args:
        spec: the specification of its encoder, which must be able to perform the tasks.
    """
    path = folder / TASKS
    if not path.is_file():
        return None
    content = read_json(path)
    form = content.get("format")
    if type(form) is not int or form != _FORMAT:
        raise DataError(
            f"'format' in {path} is {short(form)}; this Bertwright reads {_FORMAT}: "
            "a later version may have written it"
        )
    given: Any = content.get("tasks")
    if content.keys() != {"format", "tasks"} or not isinstance(given, dict) or not given:
        raise DataError(f"{path} holds {short(list(content))}; expected format and tasks, by name")
    if len(given) > _MOST_TASKS:
        raise DataError(f"{path} lists {len(given)} tasks; expected {_MOST_TASKS} at most")
    try:
        _check_names(given)
        tasks = {name: make_task(task, f"task {name}") for name, task in given.items()}
        check_tasks(tasks, spec)
    except (ConfigError, OverflowError) as error:
        raise DataError(f"{path}: {clipped(error)}") from error
    return tasks


def listed(tasks: Iterable[str]) -> str:
    """Return the names of tasks for a message, at most the first eight."""
    names = list(tasks)
    return f"the tasks {', '.join(names[:8])}" if names else "no tasks"
