"""Task heads by their `TaskConfig`: made, started by a generator, told apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import nn

from bertwright.checkpoint.task_file import check_names, check_task
from bertwright.config.task import TaskConfig
from bertwright.errors import ConfigError
from bertwright.models.encoder import EncoderSpec
from bertwright.nn.init import initialize
from bertwright.objectives.classifier import Classifier
from bertwright.objectives.labelled import Head
from bertwright.objectives.multiple_choice import MultipleChoice
from bertwright.objectives.span import Span
from bertwright.objectives.tagger import Tagger

_CLASSES = {
    "classification": Classifier,
    "regression": Classifier,
    "tagging": Tagger,
    "span": Span,
    "multiple-choice": MultipleChoice,
}


def make_head(spec: EncoderSpec, task: TaskConfig) -> Head:
    """The head of a task, as `torch.nn` initializes it."""
    head: Head = _CLASSES[task.kind](spec, task)
    return head


def initialize_head(
    spec: EncoderSpec, std: float, task: TaskConfig, generator: torch.Generator
) -> Head:
    """A new head on the CPU: linear layers as the encoder's, the rest as its modules do.

    Args:
        spec: of the encoder.
        std: standard deviation of the encoder's initialization.
        task: what the head is for.
        generator: all that is random comes from it; on the CPU.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's alone: a GPU's is not put back
        head = make_head(spec, task)
    initialize(head, std, generator)
    return head


def shapes(spec: EncoderSpec, tasks: Mapping[str, TaskConfig]) -> dict[str, tuple[int, ...]]:
    """Shapes of all parameters of heads, by our names in a learner; takes no memory.

    Raises:
        ConfigError: a head that no BERT of this shape can have, or that no memory holds.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, task in tasks.items():
        try:
            with torch.device("meta"):
                state = make_head(spec, task).state_dict()
        except RuntimeError as error:
            raise ConfigError(f"the head of task {name} is too large ({error})") from error
        found |= {f"objectives.{name}.{key}": tuple(value.shape) for key, value in state.items()}
    return found


def check_heads(
    made: Mapping[str, nn.Module], spec: EncoderSpec, tasks: Mapping[str, TaskConfig]
) -> None:
    """Raise ConfigError unless tasks are those of a learner's heads: what is saved must load."""
    if made.keys() != tasks.keys():
        raise ConfigError(
            f"the learner has {listed(made)}; what to save them as was told for {listed(tasks)}"
        )
    check_names(tasks)
    for name, task in tasks.items():
        check_task(task, spec.max_length)
        state = made[name].state_dict()
        found = {f"objectives.{name}.{key}": tuple(value.shape) for key, value in state.items()}
        expected = shapes(spec, {name: task})
        if found != expected:
            raise ConfigError(
                f"the head of task {name} has the shapes {found}; its task asks for {expected}"
            )


def same_head(a: TaskConfig, b: TaskConfig) -> bool:
    """Whether the weights of one's head are right for the other: kind, labels and head."""
    return _signature(a) == _signature(b)


def _signature(task: TaskConfig) -> TaskConfig:
    """A task with all that does not decide its head's weights at one value."""
    head = replace(task.head, dropout=0.0)
    if head.network == "linear":
        head = replace(head, network_size=1)
    of_tokens = task.kind in ("tagging", "span")
    if of_tokens or head.layers is None or head.network != "linear":
        head = replace(head, pooling="mean")
    if of_tokens and head.layers == "last":
        head = replace(head, layers=None)
    return TaskConfig(kind=task.kind, labels=task.labels, multi_label=task.multi_label, head=head)


def listed(tasks: Iterable[str]) -> str:
    """Tasks in a message, the first few of many."""
    names = list(tasks)
    return f"the tasks {', '.join(names[:8])}" if names else "no tasks"
