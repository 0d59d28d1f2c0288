"""Save and load checkpoints: folders that hold a complete model and can resume training.

```
runs/NAME/checkpoints/
  step-00012000/   config.json  model.safetensors  tokenizer files  README.md  (+ the trainer's)
                   task.json  heads.safetensors, if it was fine-tuned
                   MANIFEST.json, written last: size and SHA-256 of every file
```

The `model_type` in `config.json` identifies the model; its entry in `models/catalogue.py` defines
how it is built and what its tensors are called. Memory is allocated only after the folder has been
checked: first `config.json` is validated, then the names and shapes in the header of the weights
are compared with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertwright.checkpoint import task_heads
from bertwright.checkpoint.formats.format import Headers
from bertwright.checkpoint.memory import require_memory
from bertwright.checkpoint.opened import Opened, open_model
from bertwright.checkpoint.sentence_transformers import vectors
from bertwright.checkpoint.task_heads import HEADS, make_head
from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.models.load import system_of_config
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner
from bertwright.storage import model_folder
from bertwright.storage.model_folder import (
    CONFIG,
    FLOATS,
    VERSION_KEY,
)
from bertwright.storage.tensor_names import (
    ParameterMapping,
    Report,
    match,
    part_of,
    quote,
    stack,
    with_heads,
)
from bertwright.version import __version__

CARD = "README.md"


class Loaded(NamedTuple):
    """A learner and the content of the folder that it was loaded from."""

    learner: Learner
    config: Any
    """The configuration of the encoder, an instance of its system's configuration class."""
    report: Report
    tasks: dict[str, TaskConfig]
    """The tasks of the task heads, by the names of the heads in the learner."""
    opened: Opened
    """The model on disk."""


class LoadPlan(NamedTuple):
    """What `load` will build, checked against the headers of the files before weights are read."""

    config: Any
    """The folder's configuration of the model, without a pooler if the folder has none and no
    loaded head reads it."""
    learner: Learner
    """The learner, on the device `meta`."""
    report: Report
    tasks: dict[str, TaskConfig]
    new: list[str]
    """The heads of the learner that are not in the folder."""
    mappings: list[ParameterMapping]
    """A mapping for each parameter of the learner that is in the folder."""
    headers: Headers
    repeats: list[tuple[str, str]]
    """Pairs of tensors in the folder that must be equal."""


def save(
    folder: Path,
    learner: Learner,
    tokenizer_folder: Path | None,
    card: str,
    extra_files: Mapping[str, bytes | str] | None = None,
    state: Mapping[str, Tensor] | None = None,
    tasks: Mapping[str, TaskConfig] | None = None,
    trained_length: int | None = None,
) -> None:
    """Write a learner into an existing folder. The caller makes the write atomic and adds the
    manifest.

    Args:
        learner: an encoder of a system that can be stored, with its objectives.
        tokenizer_folder: the folder whose tokenizer files are copied; None: none are written.
        card: the text of `README.md`.
        extra_files: the contents of further files, by name.
        state: the learner's parameters, gathered elsewhere in sharded training; None: they are
            taken from the learner.
        tasks: the task of each task head of the learner, by the head's name.
        trained_length: the number of positions that were trained, which `Opened.max_length`
            returns again; None: as in the tokenizer's files.
    """
    config = getattr(learner.encoder, "config", None)
    if config is None:
        kind = type(learner.encoder).__name__
        raise ConfigError(f"a {kind} keeps no `config`, so no format can store it")
    system, spec = system_of_config(config), learner.encoder.spec
    parameters = dict(learner.state_dict() if state is None else state)
    if lost := [name for name in learner.state_dict() if name not in parameters]:
        raise IntegrityError(f"what is to be saved lacks {quote(lost)}")
    tasks = dict(tasks or {})
    made = learner.objectives.items()
    heads = {name: head for name, head in made if name not in system.objectives}
    task_heads.check_heads(heads, spec, tasks)
    pretrained = frozenset(
        name for name, head in made if name not in heads and any(True for _ in head.parameters())
    )
    tensors = task_heads.tensors_to_save(parameters, system, config, tasks, bool(pretrained))
    if tokenizer_folder is not None:
        model_folder.copy_tokenizer(tokenizer_folder, folder, spec.max_length, trained_length)
    write_config(folder, config, pretrained, tensors.keys)
    model_folder.write_weights(folder, tensors.in_model)
    if tasks:
        task_heads.write_tasks(folder, tasks)
        vectors.write(folder, heads, tasks, spec)
    if tensors.in_heads:
        model_folder.write_weights(folder, tensors.in_heads, HEADS)
    (folder / CARD).write_text(card, encoding="utf-8")
    for name, content in (extra_files or {}).items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def write_config(
    folder: Path, config: Any, objectives: frozenset[str], more: Mapping[str, Any] | None = None
) -> None:
    """Write the `config.json` of a model with these pre-training heads.

    The ids of special tokens are those of the tokenizer in the folder, except for a `pad_token_id`
    that the configuration of the model itself contains.

    Args:
        more: further keys, which describe a task head.
    """
    content = system_of_config(config).names.write_config(config, objectives)
    ids = model_folder.special_ids(folder)
    ids = ids if "eos_token_id" in content else {"pad_token_id": ids["pad_token_id"]}
    if "pad_token_id" in content:
        del ids["pad_token_id"]
    content |= ids
    content |= {VERSION_KEY: __version__, **(more or {})}
    model_folder.write_json(folder / CONFIG, content)


def load(
    model: str | Path | Opened,
    objectives: Collection[str] | None = None,
    generator: torch.Generator | None = None,
    config: Any = None,
    tasks: Mapping[str, TaskConfig] | None = None,
) -> Loaded:
    """Load a learner on the CPU in float32, after comparing its files with their manifest.

    Without `objectives` and `tasks`, every head of the folder is loaded; with either of them, only
    the heads that they name.

    Args:
        model: an opened model, or the path of one: a checkpoint, a run or a Hugging Face folder;
            see `find.look_up_place`.
        objectives: the names of the pre-training heads to load (`masked_lm`, `next_sentence`).
        generator: initializes requested heads that are not in the folder; None: such heads are an
            error. A pooler that is not in the folder (a masked LM of transformers has none) is
            initialized if a head reads it; otherwise the model has no pooler.
        config: replaces the folder's configuration, to change the dropout for example; the sizes
            must be the same.
        tasks: the task heads to load. A head's weights are read from the folder if it has a head
            of the same name that suits the task (`task_heads.same_head`): the kind, the labels
            and the settings that determine the weights are the same. All else in a `TaskConfig`
            may differ.
    """
    opened = model if isinstance(model, Opened) else open_model(model)
    _ = opened.verified
    planned = plan(opened, config, objectives, tasks, generator is not None)
    config, learner = planned.config, planned.learner
    report, tasks = planned.report, planned.tasks
    require_memory(learner, str(opened.folder))
    read, headers = opened.read, planned.headers
    for repeat, original in planned.repeats:
        both = read(headers, [repeat, original])
        if not torch.equal(both[repeat], both[original]):
            raise DataError(
                f"'{repeat}' differs from '{original}': this model's output layer is not tied to "
                "its token embeddings, as it is in what is read here"
            )
    generator = generator or torch.Generator().manual_seed(0)
    empty, state = learner.state_dict(), dict[str, Tensor]()
    for mapping in planned.mappings:
        tensors = read(headers, list(mapping.theirs))
        state[mapping.ours] = stack(mapping, tensors).to(empty[mapping.ours].dtype)
    system, encoder = system_of_config(config), learner.encoder
    std = getattr(config, "initializer_range", 0.02)  # for the matrices of new heads
    learner.load_state_dict(state, strict=False, assign=True)
    if "pooler" in report.started:
        assert encoder.pooler is not None
        initialize(encoder.pooler.to_empty(device="cpu"), std, generator)
    for name in planned.new:
        if name in tasks:
            head = task_heads.initialized(
                partial(make_head, encoder.spec, tasks[name]), std, generator
            )
            head.tie(encoder)
            learner.objectives[name] = head
        else:
            make = partial(system.objectives[name], config, encoder)
            learner.objectives[name] = task_heads.initialized(make, std, generator)
    begun = {
        name: other
        for name in learner.state_dict().keys() - state.keys()
        if (other := system.names.begins_as(name)) is not None and other in headers
    }
    parameters = dict(learner.named_parameters())
    for name, other in begun.items():
        parameters[name].data.copy_(read(headers, [other])[other])
    if missing := [name for name, buffer in learner.named_buffers() if buffer.is_meta]:
        # Buffers that are not saved, such as a table of sinusoids, are taken from a new learner.
        whole = make_learner(config, [n for n in learner.objectives if n not in tasks], tasks)
        for name in missing:
            parent, _, leaf = name.rpartition(".")
            setattr(learner.get_submodule(parent), leaf, whole.get_buffer(name))
    return Loaded(learner, config, report, tasks, opened)


def plan(
    opened: Opened,
    config: Any = None,
    objectives: Collection[str] | None = None,
    tasks: Mapping[str, TaskConfig] | None = None,
    may_initialize: bool = False,
) -> LoadPlan:
    """Check the headers of a model against its configuration and the request, and return a plan.

    Args:
        may_initialize: whether requested heads may be missing from the folder.
    """
    folder, system = opened.folder, opened.system
    config = opened.config if config is None else config
    parts = system.mappings(config)
    heads = task_heads.find_heads(
        opened.config_file, opened.content, system, config, parts, opened.headers
    )
    headers = {**opened.headers, **heads.headers}
    found = match(system.names, headers, with_heads(parts, heads.parts), str(folder))
    there = found.report.parts
    wanted = objectives
    if wanted is None:
        wanted = [name for name in system.objectives if tasks is None and name in there]
    tasks = dict(tasks) if tasks is not None else heads.tasks if objectives is None else {}
    with_weights = system.objectives.keys() & parts.keys()
    new = [name for name in wanted if name in with_weights and name not in there]
    new += [
        name
        for name, task in tasks.items()
        if name not in heads.tasks or not task_heads.same_head(heads.tasks[name], task)
    ]
    if new and not may_initialize:
        raise DataError(
            f"{folder} has no {' and no '.join(new)} head (it has: {', '.join(there)}); use a "
            "checkpoint that was trained with it"
        )
    with torch.device("meta"):
        learner = make_learner(config, wanted, tasks)
        no_pooler = "pooler" in parts and "pooler" not in there
        if no_pooler and not any(head.reads_pooled for head in learner.objectives.values()):
            config, no_pooler = replace(config, pooler=False), False
            learner = make_learner(config, wanted, tasks)
    state = learner.state_dict()
    skipped = [name for name in heads.tasks if name not in tasks or name in new]
    mappings = [
        mapping
        for mapping in found.mappings
        if mapping.ours in state and part_of(mapping.ours) not in skipped
    ]
    unread = [n for name in skipped for mapping in heads.parts[name] for n in mapping.theirs]
    report = replace(
        found.report,
        matched=tuple(name for name in found.report.matched if name not in unread),
        unused=(*found.report.unused, *unread),
        started=(*(["pooler"] if no_pooler else []), *new),
        left=opened.left,
    )
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    task_heads.check_shapes(mappings, shapes, headers, folder)
    _check_types(mappings, state, headers)
    return LoadPlan(config, learner, report, tasks, new, mappings, headers, found.repeats)


def make_learner(
    config: Any, objectives: Collection[str], tasks: Mapping[str, TaskConfig] | None = None
) -> Learner:
    """Build an encoder with pre-training heads and task heads, as their modules initialize them."""
    system, tasks = system_of_config(config), tasks or {}
    learner = system.make_learner(config, objectives)
    encoder = learner.encoder
    task_heads.check_tasks(tasks, encoder.spec)
    for name in tasks.keys() & system.objectives.keys():
        raise ConfigError(task_heads.TAKEN.format(name))
    for name, task in tasks.items():
        head = make_head(encoder.spec, task)
        head.tie(encoder)
        learner.objectives[name] = head
    return learner


def _check_types(
    mappings: Iterable[ParameterMapping], state: Mapping[str, Tensor], headers: Headers
) -> None:
    for ours, theirs, _ in mappings:
        floats = state[ours].is_floating_point()
        for name in theirs:
            header = headers[name]
            if (header.dtype in FLOATS) != floats:
                expected = f"one of {', '.join(sorted(FLOATS))}" if floats else "whole numbers"
                raise DataError(
                    f"'{name}' in {header.file} is of type {header.dtype}; expected {expected}: "
                    "quantized weights are not read"
                )
