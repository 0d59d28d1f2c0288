"""Checkpoints: a folder that is a Hugging Face model by itself, and from which training goes on.

```
runs/NAME/checkpoints/
  step-00012000/   config.json  model.safetensors  tokenizer files  README.md  (+ the trainer's)
                   task.json  heads.safetensors, if it was fine-tuned
                   MANIFEST.json, written last: size and SHA-256 of every file
  latest           a text file: the name of the newest folder
```

Loading plans before it allocates: `config.json` is judged, then the names and shapes in the header
of the weights are held against it, then memory is taken.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertwright.atomic import MANIFEST, read_manifest, verify_files, verify_manifest
from bertwright.checkpoint import head_files, heads, sources, task_file
from bertwright.checkpoint.huggingface import model as huggingface
from bertwright.checkpoint.huggingface import names
from bertwright.checkpoint.tensorflow import model as tensorflow
from bertwright.config.bert import BertConfig
from bertwright.config.task import TaskConfig
from bertwright.errors import BertwrightError, ConfigError, DataError, IntegrityError
from bertwright.models.bert import Bert, bert_spec
from bertwright.objectives.masked_lm import MaskedLM
from bertwright.objectives.next_sentence import NextSentence
from bertwright.objectives.objective import Learner, Objective

CHECKPOINTS = "checkpoints"
LATEST = "latest"
CARD = "README.md"

_OBJECTIVES: dict[str, Callable[[BertConfig, Bert], Objective[Any]]] = {
    "masked_lm": lambda config, bert: MaskedLM(config, bert.embeddings.token),
    "next_sentence": lambda config, bert: NextSentence(config.hidden_size),
}


class Loaded(NamedTuple):
    """A learner, and what was found in its folder."""

    learner: Learner
    config: BertConfig
    report: names.Report
    folder: Path
    tasks: dict[str, TaskConfig]
    """What its task heads are for, by their names in the learner."""


class Plan(NamedTuple):
    """What `load` makes, judged by headers: no weights are read yet."""

    learner: Learner
    """On the meta device."""
    report: names.Report
    tasks: dict[str, TaskConfig]
    new: list[str]
    """Its tasks whose heads start anew."""
    rows: list[names.Row]
    """Of its parameters that the folder has."""
    headers: sources.Headers
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
) -> None:
    """Write a learner into an existing folder; the caller makes it atomic and adds the manifest.

    Args:
        folder: where to write.
        learner: a `Bert` with its objectives.
        tokenizer_folder: whose tokenizer files are copied.
        card: text of `README.md`.
        extra_files: more files, by name.
        state: the learner's parameters gathered elsewhere (sharded training); unset: its own.
        tasks: what each task head of the learner is for, by its name.

    Raises:
        ConfigError: `tasks` are not those of the learner's heads.
        IntegrityError: a parameter has no place in the files, or is not there.
    """
    config = _config_of(learner)
    parameters = dict(learner.state_dict() if state is None else state)
    lost = [name for name in learner.state_dict() if name not in parameters]
    if lost:
        raise IntegrityError(f"what is to be saved lacks {names.quote(lost)}")
    tasks = dict(tasks or {})
    objectives = frozenset(name for name in learner.objectives if name in _OBJECTIVES)
    made = {name: head for name, head in learner.objectives.items() if name not in objectives}
    heads.check_heads(made, bert_spec(config), tasks)
    placed = head_files.place(parameters, config, tasks, bool(objectives))
    if tokenizer_folder is not None:
        huggingface.copy_tokenizer(tokenizer_folder, folder)
    write_model(folder, config, placed, objectives, tasks)
    (folder / CARD).write_text(card, encoding="utf-8")
    for name, content in (extra_files or {}).items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)


def write_model(
    folder: Path,
    config: BertConfig,
    placed: head_files.Placed,
    objectives: frozenset[str],
    tasks: Mapping[str, TaskConfig],
) -> None:
    """Write configuration, weights and tasks beside the tokenizer that is there."""
    huggingface.write_config(folder, config, objectives, huggingface.pad_id(folder), placed.keys)
    huggingface.write_weights(folder, placed.in_model)
    if tasks:
        task_file.write_tasks(folder, tasks)
    if placed.beside:
        huggingface.write_weights(folder, placed.beside, head_files.HEADS)


def load(
    path: str | Path,
    objectives: Collection[str] | None = None,
    generator: torch.Generator | None = None,
    config: BertConfig | None = None,
    tasks: Mapping[str, TaskConfig] | None = None,
) -> Loaded:
    """Load a learner on the CPU in float32.

    Without `objectives` and `tasks`, every head of the folder is loaded; with one of them, only
    the heads they name.

    Args:
        path: a checkpoint, a run or a Hugging Face folder, as `find_checkpoint` takes it.
        objectives: names of the pre-training heads to load (`masked_lm`, `next_sentence`).
        generator: starts heads that are asked for but not in the folder; unset: they are an error.
            A pooler that is not there (a masked LM of transformers has none) always starts anew.
        config: used in place of the folder's (another dropout); the shapes must be the same.
        tasks: the task heads to load. The weights of one are the folder's if it has a head of the
            same name for the same kind, labels and `HeadConfig` (but for dropout); what else a
            `TaskConfig` says may differ.

    Raises:
        ConfigError: a task that no BERT of this shape can have.
        DataError: no BERT, or a head that is asked for is not there.
        IntegrityError: files are cut, changed or do not belong together.
    """
    place = find_checkpoint(path)
    folder = sources.home(place)
    sources.check_links(folder)
    verify_what_is_read(folder)
    if config is None:
        config = sources.read_config(place)
    learner, report, tasks, new, rows, headers, repeats = plan(
        place, config, objectives, tasks, generator is not None
    )
    _check_repeats(repeats, headers)
    chance = generator or torch.Generator().manual_seed(0)
    state: dict[str, Tensor] = {}
    for row in rows:
        state[row.ours] = names.stack(row, sources.read_tensors(headers, list(row.theirs)))
    fresh = _prefixes(new)
    for name, value in learner.state_dict().items():
        if name not in state and not name.startswith(fresh):
            state[name] = _fresh(name, value.shape, config.initializer_range, chance)
    for name, task in tasks.items():
        # Whole modules, not only parameters: what a module keeps for itself must not stay on meta.
        start = chance if name in new else torch.Generator().manual_seed(0)
        head = heads.initialize_head(learner.encoder.spec, config.initializer_range, task, start)
        learner.objectives[name] = head
        if name in new:
            state |= {f"objectives.{name}.{k}": v for k, v in head.state_dict().items()}
    learner.load_state_dict(state, assign=True)
    return Loaded(learner, config, report, folder, tasks)


def plan(
    place: Path,
    config: BertConfig,
    objectives: Collection[str] | None = None,
    tasks: Mapping[str, TaskConfig] | None = None,
    may_start: bool = False,
) -> Plan:
    """Hold a folder's headers against its configuration and what is asked for; see `load`.

    `may_start` allows heads that are not in the folder.
    """
    folder = sources.home(place)
    headers, left = sources.read_headers(place, config.num_hidden_layers)
    there = head_files.find_heads(place, config, headers)
    found = names.match(headers, config.num_hidden_layers, str(folder), there.in_model)
    parts = found.report.parts
    wanted = objectives
    if wanted is None:
        wanted = [name for name in _OBJECTIVES if tasks is None and name in parts]
    tasks = dict(tasks) if tasks is not None else there.tasks if objectives is None else {}
    new = [
        name
        for name, task in tasks.items()
        if name not in there.tasks or not heads.same_head(there.tasks[name], task)
    ]
    absent = [name for name in wanted if name in _OBJECTIVES and name not in parts]
    report = head_files.report(found.report, there, tasks, absent + new)
    if (absent or new) and not may_start:
        raise DataError(
            f"{folder} has no {' and no '.join(absent + new)} head (it has: "
            f"{', '.join(report.parts)}); use a checkpoint that was trained with it"
        )
    with torch.device("meta"):
        learner = make_learner(config, wanted, tasks)
    shapes = {name: tuple(value.shape) for name, value in learner.state_dict().items()}
    rows = [
        row
        for row in found.rows + there.beside
        if row.ours in shapes and not row.ours.startswith(_prefixes(new))
    ]
    report = sources.in_its_own_words(report, headers, left)
    headers |= there.headers
    head_files.check_shapes(rows, shapes, headers, folder)
    return Plan(learner, report, tasks, new, rows, headers, found.repeats)


def make_learner(
    config: BertConfig,
    objectives: Collection[str],
    tasks: Mapping[str, TaskConfig] | None = None,
) -> Learner:
    """A BERT with pre-training heads and task heads by name, as `torch.nn` starts them.

    Raises:
        ConfigError: no such objective, or a task that no BERT of this shape can have.
    """
    for name in objectives:
        if name not in _OBJECTIVES:
            raise ConfigError(f"no objective {name!r}; there are {', '.join(_OBJECTIVES)}")
    tasks = tasks or {}
    task_file.check_names(tasks)
    for task in tasks.values():
        task_file.check_task(task, config.max_position_embeddings)
    bert = Bert(config)
    made = {name: make(config, bert) for name, make in _OBJECTIVES.items() if name in objectives}
    made |= {name: heads.make_head(bert.spec, task) for name, task in tasks.items()}
    return Learner(bert, made)


def find_checkpoint(path: str | Path) -> Path:
    """The folder of weights that a path means.

    A folder with a `config.json` or with a TensorFlow checkpoint is itself, and so is such a
    checkpoint by its name; a run, its `checkpoints` and `checkpoints/latest` are the newest
    checkpoint whose manifest verifies.

    Raises:
        DataError: there is nothing to load.
        IntegrityError: a run has checkpoints, all of them damaged.
    """
    path = Path(path)
    if path.name == LATEST and not path.is_dir():
        path = path.parent
    place = sources.place_of(path)
    if place is not None:
        return place
    if path.name == CHECKPOINTS and path.is_dir():
        return newest_verified(path.parent)
    if (path / CHECKPOINTS).is_dir():
        return newest_verified(path)
    if path.is_dir():
        raise DataError(
            f"{path} holds neither {huggingface.CONFIG} nor {CHECKPOINTS}/: "
            "give the folder of a run, a checkpoint, a Hugging Face model or a TensorFlow BERT"
        )
    raise DataError(f"no folder {path}: give the folder of a run, a checkpoint or a model")


def newest_verified(run: Path) -> Path:
    """The newest checkpoint of a run whose manifest verifies; damaged ones are passed over.

    Raises:
        DataError: the run has no checkpoint yet.
        IntegrityError: every checkpoint is damaged; says how each is.
    """
    damages = []
    for folder in reversed(list_checkpoints(run)):
        try:
            verify_manifest(folder)
        except IntegrityError as error:
            damages.append(str(error))
        else:
            return folder
    if damages:
        raise IntegrityError(f"{run} has no whole checkpoint: {'; '.join(damages)}")
    raise DataError(f"{run} has no checkpoint yet")


def list_checkpoints(run: Path) -> list[Path]:
    """The `step-N` folders of a run, oldest first."""
    numbered = []
    for folder in (run / CHECKPOINTS).glob("step-*"):
        number = re.fullmatch(r"step-(\d+)", folder.name)
        if number and folder.is_dir():
            numbered.append((int(number[1]), folder))
    return [folder for _, folder in sorted(numbered)]


def write_latest(run: Path, name: str) -> None:
    """Let `checkpoints/latest` name a folder beside it, by one rename."""
    latest = run / CHECKPOINTS / LATEST
    partial = latest.with_name(f".{LATEST}.partial-{os.getpid()}")
    partial.write_text(name + "\n", encoding="utf-8")
    partial.replace(latest)


def _config_of(learner: nn.Module) -> BertConfig:
    encoder = getattr(learner, "encoder", None)
    if not isinstance(encoder, Bert):
        raise BertwrightError(f"the encoder is a {type(encoder).__name__}; only a Bert is saved")
    return encoder.config


def _prefixes(tasks: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"objectives.{name}." for name in tasks)


def _check_repeats(repeats: list[tuple[str, str]], headers: sources.Headers) -> None:
    for repeat, original in repeats:
        tensors = sources.read_tensors(headers, [repeat, original])
        if not torch.equal(tensors[repeat], tensors[original]):
            raise DataError(
                f"'{repeat}' differs from '{original}': this model's decoder is not tied to its "
                "token embeddings, as BERT's is"
            )


def _fresh(name: str, shape: tuple[int, ...], std: float, generator: torch.Generator) -> Tensor:
    """A parameter that no file gives, started as `nn/init.py` starts it."""
    if len(shape) == 1:
        return torch.ones(shape) if name.endswith("norm.weight") else torch.zeros(shape)
    return nn.init.trunc_normal_(torch.empty(shape), 0.0, std, -2 * std, 2 * std, generator)


def verify_what_is_read(folder: Path) -> None:
    """Hold the model's files against the manifest, if there is one.

    Raises:
        IntegrityError: one of them was changed or is not there, or the manifest is damaged.
    """
    if not (folder / MANIFEST).is_file():
        return
    files = read_manifest(folder)["files"]
    asked = {huggingface.CONFIG, huggingface.WEIGHTS, task_file.TASKS, head_files.HEADS}
    asked |= {tensorflow.CONFIG}
    verify_files(folder, {name: files[name] for name in sorted(asked & files.keys())})
