"""Generation: a source and its target as an instance, and the search for a target.

A sequence is `[CLS] source [SEP] target [SEP]` (Dong et al. 2019, section 2.1), read in one window:
of a source that leaves no room for a target the rest is not read, and a target's tokens beyond
`max_target_tokens` are not trained on. Both are counted in `Lengths`.

To predict, the source is read once, and each token over what is kept of those before it; sources
that are the same are searched for once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from math import nan
from typing import Any, cast

import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.config.task import TaskConfig
from bertwright.data.batch import token_batches
from bertwright.errors import ConfigError, DataError
from bertwright.labelled.examples import Example, GenerationExample
from bertwright.models.encoder import Encoder, GoesOn, State
from bertwright.nn.search import Row, RowsInFlight, beam_search
from bertwright.nn.sequences import Inputs
from bertwright.objectives.generator import Generator
from bertwright.objectives.objective import Learner
from bertwright.progress import OnProgress
from bertwright.tasks.batch import make_batch
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
"""Texts that are generated at once, beams counted."""
_NEVER = ("pad", "unk", "cls", "bos", "mask")


def make_generation_instances(
    task: TaskConfig, tokenizer: Tokenizer, examples: Sequence[Example]
) -> tuple[list[Instance], Lengths]:
    """One instance an example; its label is how many tokens are the source's.

    Raises:
        DataError: an empty source or target, or a target of which the tokenizer keeps nothing; with
            the line.
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
            raise DataError(
                f"{in_words(example, number)}: the tokenizer keeps nothing of the "
                f"target {example.target!r}; write it otherwise or take the line out"
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


def ends_of(tokenizer: Tokenizer) -> tuple[set[int], set[int]]:
    """Ids that end a text, and ids that no text has: of special tokens, and of none."""
    ends = {tokenizer.special[role] for role in ("sep", "eos") if role in tokenizer.special}
    never = {tokenizer.special[role] for role in _NEVER if role in tokenizer.special}
    return ends, (never | set(tokenizer.ids_without_token)) - ends


class SourceDecoder:
    """`search.Joins` over sources, by an encoder that goes on from them."""

    def __init__(self, encoder: Encoder, head: Generator) -> None:
        if not isinstance(encoder, GoesOn):
            raise ConfigError("this encoder keeps nothing of what it has read: it writes no target")
        self.encoder: GoesOn = encoder
        self.head = head
        self.finite = True
        """Whether all that it began with were numbers; those of weights that diverged are not."""

    def begin(self, source: Inputs) -> tuple[Tensor, State]:
        """B sources -> `[B, V]`, and what is kept of them."""
        x, state = self.encoder.begin(source)
        logits = self.head.logits(x)
        self.finite = bool(logits.isfinite().all())
        return logits, state

    def advance(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Generates`."""
        x, state = self.encoder.advance(ids, state)
        return self.head.logits(x), state

    def select(self, state: State, rows: Tensor) -> State:
        """See `Generates`."""
        return state.select(rows)

    def join(self, first: State, second: State) -> State:
        """See `Joins`."""
        return first.join(second)


Found = list[tuple[float | None, list[int]]]
"""Of one source: scores and tokens, best first."""


def generate_targets(
    learner: Learner,
    data: Any,
    device: torch.device,
    batch_tokens: int,
    config: GenerationConfig | None,
    on_progress: OnProgress,
) -> Iterator[tuple[int, GenerationPrediction]]:
    """Numbers of examples of a `TaskData`, and their predictions, by the `Generator` that has its
    name; by default greedily, never of more than the task's `max_target_tokens`."""
    config = config or GenerationConfig(max_new_tokens=data.task.max_target_tokens)
    limit = min(config.max_new_tokens, data.task.max_target_tokens)
    decoder = SourceDecoder(learner.encoder, cast(Generator, learner.objectives[data.name]))
    ends, never = ends_of(data.tokenizer)
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, instance in enumerate(data.instances):
        groups.setdefault(tuple(instance.ids[0][: instance.label]), []).append(row)
    sources = list(groups)
    wide = config.beam if config.beam > 1 else config.num
    done = 0
    for part in token_batches([len(ids) for ids in sources], batch_tokens):
        for start in range(0, len(part), max(1, ROWS // wide)):
            own = [sources[n] for n in part[start : start + max(1, ROWS // wide)]]
            rows = [groups[ids][0] for ids in own]
            batch = make_batch(data.name, data.task, data.instances, rows, device, False)
            found = _search(decoder, batch.inputs, config, limit, ends, never)
            assert batch.owners is not None
            for owner, texts in zip(batch.owners.tolist(), found, strict=True):
                prediction = _prediction(texts, data.tokenizer, config)
                for row in groups[own[owner]]:
                    yield row, prediction
                    done += data.instances[row].num_tokens
            on_progress(done, data.num_tokens)


def _search(
    decoder: SourceDecoder,
    source: Inputs,
    config: GenerationConfig,
    limit: int,
    ends: set[int],
    never: set[int],
) -> list[Found]:
    """What is found for each source."""
    count = source.sequences.count
    if config.beam > 1:
        hypotheses = beam_search(
            decoder,
            source,
            ends,
            [limit + 1] * count,  # the end counts there
            beam=config.beam,
            length_penalty=config.length_penalty,
            repetition_penalty=config.repetition_penalty,
            never=never,
        )
        return [
            [(each.score, each.ids[:limit]) for each in own[: config.num]] for own in hypotheses
        ]
    flight: RowsInFlight[State] = RowsInFlight(decoder, ends, never)
    rows = [[Row(config, limit, number=n) for n in range(config.num)] for _ in range(count)]
    flight.add(source, rows)
    while len(flight):
        flight.step()
    return [[(None if decoder.finite else nan, row.ids) for row in own] for own in rows]


def _prediction(
    found: Found, tokenizer: Tokenizer, config: GenerationConfig
) -> GenerationPrediction:
    texts = []
    for _, ids in found:
        text = tokenizer.decode(ids).strip()
        cut = [text.find(each) for each in config.stop if each in text]
        texts.append(text[: min(cut)].rstrip() if cut else text)
    return GenerationPrediction(texts[0], found[0][0], tuple(texts[1:]))
