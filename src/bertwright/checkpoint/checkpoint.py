"""Save and load checkpoints: folders that hold a complete model and can resume training.

```
runs/NAME/checkpoints/
  step-00012000/   config.json  model.safetensors  tokenizer files  README.md  (+ the trainer's)
                   task.json  heads.safetensors, if it was fine-tuned
                   MANIFEST.json, written last: size and SHA-256 of every file
  latest           a text file: the name of the newest folder
runs/NAME/model    a link to the newest folder, for other programs
```

The `model_type` in `config.json` identifies the model; its entry in `models/catalogue.py` defines
how it is built and what its tensors are called. Memory is allocated only after the folder has been
checked: first `config.json` is validated, then the names and shapes in the header of the weights
are compared with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertwright.atomic import MANIFEST, read_manifest, verify_files, verify_manifest
from bertwright.checkpoint import missing, sources, task_heads
from bertwright.checkpoint.adapters import Adapter, Headers, adapter_of
from bertwright.checkpoint.huggingface import hub
from bertwright.checkpoint.sentence_transformers import folder as sentence_transformers
from bertwright.checkpoint.sentence_transformers import vectors
from bertwright.checkpoint.task_heads import HEADS, TASKS, make_head
from bertwright.config.hub import id_of
from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError, DataError, IntegrityError
from bertwright.machine import usable_memory
from bertwright.models.load import system_of_config
from bertwright.nn.init import initialize
from bertwright.nn.objective import Learner
from bertwright.storage import model_folder
from bertwright.storage.model_folder import (
    BERT_CONFIG,
    CONFIG,
    FLOATS,
    TOKENIZER_FILES,
    VERSION_KEY,
    WEIGHTS,
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

CHECKPOINTS = missing.CHECKPOINTS
LATEST = "latest"
MODEL = "model"
CARD = "README.md"
_READ = (CONFIG, WEIGHTS, TASKS, HEADS, BERT_CONFIG, *TOKENIZER_FILES)


class DamagedCheckpoint(UserWarning):
    """Warns that a checkpoint was skipped because its files differ from its manifest."""


class Loaded(NamedTuple):
    """A learner and the content of the folder that it was loaded from."""

    learner: Learner
    config: Any
    """The configuration of the encoder, an instance of its system's configuration class."""
    report: Report
    folder: Path
    tasks: dict[str, TaskConfig]
    """The tasks of the task heads, by the names of the heads in the learner."""


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
    adapter: Adapter
    """The adapter that reads the tensors."""
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
        folder: the folder to write to.
        learner: an encoder of a system that can be stored, with its objectives.
        tokenizer_folder: the folder whose tokenizer files are copied; None: none are written.
        card: the text of `README.md`.
        extra_files: the contents of further files, by name.
        state: the learner's parameters, gathered elsewhere in sharded training; None: they are
            taken from the learner.
        tasks: the task of each task head of the learner, by the head's name.
        trained_length: the number of positions that were trained, which `sources.read_length`
            returns again; None: as in the tokenizer's files.

    Raises:
        ConfigError: the encoder cannot be stored, or `tasks` does not match the learner's heads.
        IntegrityError: a parameter has no name in the files, or is missing.
        BertwrightError: a parameter holds numbers that are not finite.
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
    objectives = frozenset(name for name in learner.objectives if name in system.objectives)
    heads = {name: head for name, head in learner.objectives.items() if name not in objectives}
    task_heads.check_heads(heads, spec, tasks)
    tensors = task_heads.tensors_to_save(parameters, system, config, tasks, bool(objectives))
    if tokenizer_folder is not None:
        model_folder.copy_tokenizer(tokenizer_folder, folder, spec.max_length, trained_length)
    write_config(folder, config, objectives, tensors.keys)
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
        folder: the folder to write to.
        config: the configuration of the model.
        objectives: the names of its pre-training heads.
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
    path: str | Path,
    objectives: Collection[str] | None = None,
    generator: torch.Generator | None = None,
    config: Any = None,
    tasks: Mapping[str, TaskConfig] | None = None,
) -> Loaded:
    """Load a learner on the CPU in float32.

    Without `objectives` and `tasks`, every head of the folder is loaded; with either of them, only
    the heads that they name.

    Args:
        path: a checkpoint, a run or a Hugging Face folder; see `find_checkpoint`.
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

    Raises:
        ConfigError: no model of this configuration can have one of the tasks, or the model does
            not fit in memory.
        DataError: the model is of a kind that is not read, or a requested head is not there.
        IntegrityError: files are truncated, were changed or do not belong together.
    """
    source = find_checkpoint(path)
    folder = sources.folder_of(source)
    verify_folder(folder)
    if config is None:
        config = sources.read_config(source)
    planned = plan(source, config, objectives, tasks, generator is not None)
    config, learner = planned.config, planned.learner
    report, tasks = planned.report, planned.tasks
    require_memory(learner, str(folder))
    read, headers = planned.adapter.read, planned.headers
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
    return Loaded(learner, config, report, folder, tasks)


def plan(
    source: Path,
    config: Any,
    objectives: Collection[str] | None = None,
    tasks: Mapping[str, TaskConfig] | None = None,
    may_initialize: bool = False,
) -> LoadPlan:
    """Check the headers of a source against its configuration and the request, and return a plan.

    Args:
        source: a folder, or the name of a TensorFlow checkpoint.
        config: the configuration of the model.
        objectives: as for `load`.
        tasks: as for `load`.
        may_initialize: whether requested heads may be missing from the folder.

    Raises:
        ConfigError, DataError, IntegrityError: as for `load`.
    """
    folder, adapter = sources.folder_of(source), adapter_of(source)
    system = adapter.system(source, config)
    parts = system.mappings(config)
    headers, left = adapter.headers(source)
    heads = task_heads.find_heads(source, system, config, parts, headers)
    headers |= heads.headers
    found = match(system.names, headers, with_heads(parts, heads.parts), str(folder))
    there = found.report.parts
    wanted = objectives
    if wanted is None:
        wanted = [name for name in system.objectives if tasks is None and name in there]
    tasks = dict(tasks) if tasks is not None else heads.tasks if objectives is None else {}
    new = [name for name in wanted if name in system.objectives and name not in there]
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
        left=left,
    )
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    task_heads.check_shapes(mappings, shapes, headers, folder)
    _check_types(mappings, state, headers)
    return LoadPlan(config, learner, report, tasks, new, mappings, adapter, headers, found.repeats)


def require_memory(learner: Learner, what: str) -> None:
    """Raise ConfigError if the weights of a learner need more memory than this machine has. The
    learner may be on the device `meta`."""
    tensors = [*learner.parameters(), *learner.buffers()]
    size, most = sum(x.numel() * x.element_size() for x in tensors), usable_memory()
    if most is not None and size > most:
        count = sum(parameter.numel() for parameter in learner.parameters())
        raise ConfigError(
            f"{what} has {count:,} parameters, which take {size / 1e9:,.1f} GB of memory; this "
            f"machine has {most / 1e9:,.1f} GB: choose smaller sizes, or a machine with more memory"
        )


def make_learner(
    config: Any, objectives: Collection[str], tasks: Mapping[str, TaskConfig] | None = None
) -> Learner:
    """Build an encoder with pre-training heads and task heads, as their modules initialize them.

    Raises:
        ConfigError: an objective does not exist, or the encoder cannot have one of the tasks.
    """
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


def find_checkpoint(path: str | Path) -> Path:
    """Return the folder of weights that a path refers to; see `look_up_checkpoint`.

    A `DamagedCheckpoint` warning is given for each newer checkpoint that is skipped as damaged.
    """
    folder, damages = look_up_checkpoint(path)
    for damage in damages.values():
        message = f"{damage}. {folder.name} is used, the newest that is whole"
        warnings.warn(DamagedCheckpoint(message), stacklevel=2)
    return folder


def look_up_checkpoint(path: str | Path) -> tuple[Path, dict[str, str]]:
    """Return the folder of weights that a path refers to, and the damage of each newer checkpoint
    of the same run, by the checkpoint's name.

    A folder with a `config.json` or with a TensorFlow checkpoint refers to itself, as does the name
    of such a checkpoint. A run, its `model`, its `checkpoints` and its `checkpoints/latest` refer
    to the newest checkpoint whose manifest verifies. The folder of a quickstart refers to its run.
    `hf:ORG/NAME` is fetched from the Hugging Face hub (`huggingface/hub.py`); no other path
    accesses the hub.

    Raises:
        DataError: there is nothing to load, or the run has no checkpoint yet.
        MissingExtra: the path is an id of the hub, and huggingface_hub is not installed.
        IntegrityError: all checkpoints of the run are damaged.
    """
    path = Path(path)
    if path.name == LATEST and not path.is_dir():
        path = path.parent
    if path.name == MODEL and path.is_symlink() and (path.parent / CHECKPOINTS).is_dir():
        path = path.parent
    if (source := sources.model_at(path)) is not None:
        return source, {}
    runs = [path.parent] if path.name == CHECKPOINTS else []
    for run in (*runs, path, path / "run"):
        if (run / CHECKPOINTS).is_dir():
            return _newest_verified(run)
    if path.is_dir():
        raise missing.no_model(path)
    if id_of(path) is not None and (source := sources.model_at(hub.fetch(path))) is not None:
        return source, {}
    raise missing.no_model(path)


def _newest_verified(run: Path) -> tuple[Path, dict[str, str]]:
    """Return the newest checkpoint of a run whose manifest verifies, and the damage of each newer
    one by its name."""
    damages: dict[str, str] = {}
    for folder in reversed(list_checkpoints(run)):
        try:
            verify_manifest(folder)
        except IntegrityError as error:
            damages[folder.name] = str(error)
            continue
        return folder, damages
    if damages:
        raise IntegrityError(f"{run} has no whole checkpoint: {'; '.join(damages.values())}")
    raise DataError(f"{run} has no checkpoint yet")


def list_checkpoints(run: Path) -> list[Path]:
    """Return the `step-N` folders of a run, oldest first."""
    found = [
        (int(number[1]), folder)
        for folder in (run / CHECKPOINTS).glob("step-*")
        if (number := re.fullmatch(r"step-(\d+)", folder.name)) and folder.is_dir()
    ]
    return [folder for _, folder in sorted(found)]


def write_latest(run: Path, name: str) -> None:
    """Write the name of a checkpoint to `checkpoints/latest`, and link `model` to the checkpoint.

    Each is replaced by a rename. On a disk without symbolic links, no `model` is written.
    """
    latest = run / CHECKPOINTS / LATEST
    partial = latest.with_name(f".{LATEST}.partial-{os.getpid()}")
    try:
        partial.write_text(name + "\n", encoding="utf-8")
        partial.replace(latest)
        with contextlib.suppress(OSError):
            partial.symlink_to(Path(CHECKPOINTS, name), target_is_directory=True)
            partial.replace(run / MODEL)
    finally:
        partial.unlink(missing_ok=True)


def verify_folder(folder: Path, files: Collection[str] = ()) -> None:
    """Check a folder before anything in it is read: no link may lead out of it (see
    `sources.check_links`), and its files must match its manifest (see `verify_what_is_read`).

    Raises:
        IntegrityError: a link leads out of the folder, or a file does not match the manifest.
    """
    sources.check_links(folder, parts=False)
    verify_what_is_read(folder, files)
    sources.check_links(folder)


def verify_what_is_read(folder: Path, more: Collection[str] = ()) -> None:
    """Check the files of the model and of the tokenizer, those of a folder of
    sentence-transformers, and the files named in `more`, against the manifest, if the folder has
    one.

    Raises:
        DataError: a `modules.json` lists no parts.
        IntegrityError: a file was changed, is missing or is not listed, or the manifest is damaged.
    """
    if not (folder / MANIFEST).is_file():
        return
    files = read_manifest(folder)["files"]
    _verify_read(folder, files, [*_READ, *sentence_transformers.SETTINGS, *more])
    if sentence_transformers.is_one(folder):  # `modules.json`, which lists the parts, is whole
        _verify_read(folder, files, sentence_transformers.files_of(folder))


def _verify_read(folder: Path, files: Mapping[str, Any], read: Collection[str]) -> None:
    verify_files(folder, {name: files[name] for name in read if name in files})
    if added := [name for name in read if (folder / name).is_file() and name not in files]:
        raise IntegrityError(
            f"{folder} has {quote(added)}, which its {MANIFEST} does not list: written later, or "
            "by another program; remove it, or remove the manifest if you trust the files"
        )


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
