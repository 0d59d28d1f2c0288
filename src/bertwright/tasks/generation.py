"""Generation: a source and its target as an instance, and texts that continue prompts.

A sequence is `[CLS] source [SEP] target [SEP]` (Dong et al. 2019, section 2.1), read in one window:
of a source that leaves no room for a target the rest is not read, and a target's tokens beyond
`max_target_tokens` are not trained on. Both are counted in `Lengths`.

Prompts, and the sources of a task, each once, are read without padding and continued token by token
over what is kept; rows leave when their text ends, and the next prompt joins.

Letters: B prompts, R rows (texts), V vocabulary."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, cast

import torch
from torch import nn

from bertwright.config.generation import GenerationConfig
from bertwright.config.task import TaskConfig
from bertwright.decoding.texts import CausalDecoder, Prompt, continue_prompts
from bertwright.errors import DataError
from bertwright.labelled.examples import Example, GenerationExample
from bertwright.nn.encoder import Encoder
from bertwright.nn.objective import Learner
from bertwright.nn.products import lay_out
from bertwright.progress import OnProgress
from bertwright.tasks.instances import (
    Instance,
    Lengths,
    in_words,
    segments_of,
    tokenized,
    whole_length,
)
from bertwright.tasks.predictions import GenerationPrediction
from bertwright.text.tokenizer.tokenizer import Tokenizer

ROWS = 128
"""Targets that are searched for at once, beams counted."""


def make_generation_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance an example; its label is how many tokens are the source's.

    Raises:
        DataError: an empty source or target, or one of which the tokenizer keeps nothing; with the
            line.
    """

    def texts_of(example: GenerationExample) -> dict[str, str]:
        target = {} if example.target is None else {"target": example.target}
        return {"source": example.source} | target

    chosen, framing = cast(Sequence[GenerationExample], examples), tokenizer.framing
    room = task.max_length - task.max_target_tokens - framing.special_tokens(True)
    instances: list[Instance] = []
    lengths = Lengths()
    for number, example, (source, *targets) in tokenized(tokenizer, chosen, texts_of):
        if targets and not targets[0]:
            where = in_words(example, number)
            raise DataError(
                f"{where}: the tokenizer keeps nothing of the target {example.target!r}"
            )
        target: Sequence[int] = targets[0] if targets else ()
        first, second = source[:room], target[: task.max_target_tokens]
        ids = framing.two(first, second)
        prefix = len(ids) - len(second) - (framing.special_tokens(True) > 0)
        if len(second) < len(target):
            ids = ids[:-1]  # it does not end here
        segments = segments_of(framing, len(first), len(second))[: len(ids)]
        instances.append(Instance(number, (array("i", ids),), (segments,), prefix))
        lost = len(source) - len(first) + len(target) - len(second)
        lengths.add(whole_length(framing, source, target), 1, lost)
    return instances, lengths


def generate_targets(
    learner: Learner,
    data: Any,
    precision: str,
    batch_tokens: int,
    config: GenerationConfig | None,
    on_progress: OnProgress,
) -> Iterator[tuple[int, GenerationPrediction]]:
    """Numbers of examples of a `TaskData`, and their predictions by its head; by default greedily,
    never of more than the task's `max_target_tokens`."""
    config = config or GenerationConfig(max_new_tokens=data.task.max_target_tokens)
    limit = min(config.max_new_tokens, data.task.max_target_tokens)
    decoder = _decoder(learner, data.name, precision)
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, instance in enumerate(data.instances):
        groups.setdefault(tuple(instance.ids[0][: instance.label]), []).append(row)
    sources = sorted(groups, key=len, reverse=True)
    prompts = [Prompt([*ids], limit) for ids in sources]
    done = 0
    texts = continue_prompts(decoder, data.tokenizer, prompts, config, batch_tokens, ROWS)
    for number, found in texts:
        first, *others = (each.text.strip() for each in found)
        score = found[0].score
        for row in groups[sources[number]]:
            yield row, GenerationPrediction(first, score, tuple(others))
            done += data.instances[row].num_tokens
        on_progress(done, data.num_tokens)


def _decoder(learner: Learner, name: str, precision: str) -> CausalDecoder:
    """Of a copy of the weights that a head needs, in a precision: autocast would cast all of them
    at each step, and those of training are laid out for it."""
    with torch.inference_mode(False):  # tensors that it makes do not tell whether they changed
        own = deepcopy(nn.ModuleList([learner.encoder, learner.objectives[name]]))
        if precision == "bf16":
            own.to(torch.bfloat16)
        encoder, head = cast(Encoder, own[0]), cast(Any, own[1])
        lay_out(own, head.weight)
    return CausalDecoder(encoder, head, paired=True)
