"""Search for the tokens that follow: greedy, sampling, beam search; it knows no model.

The rows computed are always the rows still open: there is no padding of those that are done.

- Greedy and sampling: temperature, top-k (Fan et al. 2018), nucleus (Holtzman et al. 2020): the
  fewest most probable tokens that have p of the probability; repetition penalty t (Keskar et al.
  2019, section 4.1): the logit of a token that was there is divided by t if positive, else
  multiplied. A row's draws come from its own seed alone.
- Beam search as transformers has it: of 2 K continuations a source the first K that do not end go
  on, one that ends among the first K is kept with its score, `sum of log p / length^a`; a source is
  done when its K best are kept and no beam scores better at the present length.

Letters: B sources, R rows, K beams, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.nn.finite import NotFinite
from bertwright.nn.host import send, send_numbers

PART = 64  # tokens of which the most probable is looked at first
NUCLEUS = 1024  # tokens sorted first; the whole vocabulary only where they hold too little


class Generates(Protocol):
    """A decoder.

    Its state (a KV cache, an LSTM's) has `select(rows)`: that of these rows `[r]`, a tensor of the
    host, in this order, one may be there several times; and, where rows may begin at different
    times, `join(other)`: the rows of both. The search uses no state again that it passed on: it may
    be changed in place.
    """

    def begin(self, source: Any) -> tuple[Tensor, Any]:
        """B prompts, or B encoded texts -> logits of the first token `[B, V]`, and the state."""

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """A token of each row `[R]` -> logits of the next `[R, V]`, and the state."""


@dataclass(eq=False)
class Row:
    """One text that is being generated, of at most `limit` tokens."""

    config: GenerationConfig
    limit: int
    prompt: Sequence[int] = ()
    """What the repetition penalty counts beside its own tokens."""
    number: int = 0
    """Among the rows of its prompt, which differ by it."""
    ids: list[int] = field(default_factory=list)
    """Its tokens so far, without that which ended it."""
    reason: Literal["stop", "length"] | None = None
    """Why it ended; set it to end a row."""

    def __post_init__(self) -> None:
        self.random = Random(f"{self.config.seed} {self.number}")


class RowsInFlight:
    """Rows that each take one token a step; others may join at any step, and ended ones leave."""

    def __init__(
        self, decoder: Generates, ends: Collection[int], never: Collection[int] = ()
    ) -> None:
        """`ends`, `never`: as `beam_steps` has them."""
        self.decoder = decoder
        self.ends, self._never = frozenset(ends), torch.tensor(list(never), dtype=torch.long)
        self.rows: list[Row] = []
        self._state: Any = None
        self._device = torch.device("cpu")
        self._begun: list[tuple[list[Row], Tensor, Any]] = []

    def __len__(self) -> int:
        begun = sum(len(rows) for rows, *_ in self._begun)
        return begun + sum(row.reason is None for row in self.rows)

    @torch.inference_mode()
    def add(self, source: Any, rows: Sequence[Sequence[Row]]) -> None:
        """Begin B sources, each for one row or more."""
        logits, state = self.decoder.begin(source)
        owners = [number for number, of_source in enumerate(rows) for _ in of_source]
        if len(owners) > len(rows):
            index = torch.tensor(owners)
            logits = logits.index_select(0, send(index, logits.device))
            state = state.select(index)
        self._begun.append(([row for of_source in rows for row in of_source], logits, state))

    @torch.inference_mode()
    def step(self) -> list[Row]:
        """A token for each row that has not ended; returns those rows."""
        parts, self._begun = self._begun, []
        kept = [number for number, row in enumerate(self.rows) if row.reason is None]
        if kept:
            state, going = self._state, [self.rows[number] for number in kept]
            if len(kept) < len(self.rows):
                state = state.select(torch.tensor(kept))
            last = send_numbers([row.ids[-1] for row in going], self._device)
            parts.insert(0, (going, *self.decoder.advance(last, state)))
        self.rows, self._state = [], None
        for rows, _, state in parts:
            self.rows += rows
            self._state = state if self._state is None else self._state.join(state)
        if parts:
            x = torch.cat([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
            self._device = x.device
            self._never = send(self._never, x.device)
            x.index_fill_(1, self._never, -torch.inf)
            for row, token in zip(self.rows, choose(x, self.rows), strict=True):
                if token in self.ends:
                    row.reason = "stop"
                    continue
                row.ids.append(token)
                if len(row.ids) >= row.limit:
                    row.reason = "length"
        return self.rows


def choose(logits: Tensor, rows: Sequence[Row]) -> list[int]:
    """The next token of each row, by its own settings; logits `[R, V]`."""
    tokens = logits.argmax(1)  # of a row with NaN, NaN
    finite = logits.gather(1, tokens[:, None])[:, 0].isfinite()
    best: list[int]
    best, are_finite = torch.stack([tokens, finite.long()]).tolist()  # read from a GPU at once
    if not all(are_finite):
        raise NotFinite("logits")
    for number, row in enumerate(rows):
        config = row.config
        if config.sample or config.repetition_penalty != 1:
            x = penalize(logits[number], [*row.prompt, *row.ids], config.repetition_penalty)
            best[number] = draw(x, config, row.random) if config.sample else int(x.argmax())
    return best


def penalize(x: Tensor, seen: Sequence[int], penalty: float) -> Tensor:
    """Logits `[V]` with tokens that were there made less probable."""
    if penalty == 1 or not seen:
        return x
    index = send_numbers(sorted(set(seen)), x.device)
    found = x[index]
    return x.index_put((index,), torch.where(found > 0, found / penalty, found * penalty))


def draw(x: Tensor, config: GenerationConfig, random: Random) -> int:
    """A token by its probability, from logits `[V]`."""
    x = x / config.temperature
    ids: Tensor | None = None
    if config.top_k is not None:
        x, ids = x.topk(min(config.top_k, len(x)))
    p = x.softmax(0)
    if config.top_p < 1:
        p, order = p.topk(min(NUCLEUS, len(p)))
        if p.sum() < config.top_p:
            p, order = x.softmax(0).sort(descending=True)
        ids = order if ids is None else ids[order]
    sums = p.double().cumsum(0)
    if config.top_p < 1:
        sums = sums[: int((sums < config.top_p).sum()) + 1]
    position = int(torch.searchsorted(sums, random.random() * float(sums[-1]), right=True))
    position = min(position, len(sums) - 1)
    return position if ids is None else int(ids[position])


def best_of(p: Tensor, scores: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each of S sources: sums, best first, beams, tokens, `[S, size]`.

    On a CPU looked for where the largest maxima of parts of rows are, several times as fast as a
    `topk` over all.

    p: log-probabilities, `[S K, V]`; scores: what is added to each beam's, `[S, K]`.
    """
    beams, vocabulary = scores.shape[1], p.shape[1]
    whole = vocabulary // PART * PART
    if p.is_cuda or whole < size * PART:
        every = (p.view(*scores.shape, -1) + scores[:, :, None]).flatten(1)
        found = every.topk(min(size, every.shape[1]))
        return found.values, found.indices // vocabulary, found.indices % vocabulary
    parts = p[:, :whole].view(len(p), -1, PART)  # [S K, parts, PART]
    most = parts.amax(2).view(*scores.shape, -1) + scores[:, :, None]
    chosen = most.flatten(1).topk(size).indices  # [S, size]
    beam, part = chosen // most.shape[2], chosen % most.shape[2]
    rows = beam + torch.arange(0, len(p), beams)[:, None]
    sums = (parts[rows, part] + scores.gather(1, beam)[:, :, None]).flatten(1)
    rest = (p[:, whole:].view(*scores.shape, -1) + scores[:, :, None]).flatten(1)
    best, index = torch.cat([sums, rest], 1).topk(size)
    inside, behind = index.clamp(max=sums.shape[1] - 1), index - sums.shape[1]
    left = max(1, vocabulary - whole)
    tokens = part.gather(1, inside // PART) * PART + inside % PART
    beam = torch.where(behind < 0, beam.gather(1, inside // PART), behind // left)
    return best, beam, torch.where(behind < 0, tokens, whole + behind % left)


class Hypothesis(NamedTuple):
    """A text that beam search found."""

    score: float
    """Its log-probability over its length to the power of the penalty."""
    ids: list[int]
    """Without the token that ended it."""
    reason: Literal["stop", "length"]


BeamSteps = Iterator[list[tuple[int, list[Hypothesis]]]]
"""A beam search, step by step: which sources are done, by number, and what was found of them."""


def finish(steps: BeamSteps) -> list[list[Hypothesis]]:
    """Take all steps of a beam search: of each source K hypotheses at most, best first."""
    found = dict(each for done in steps for each in done)
    return [found[number] for number in sorted(found)]


@torch.inference_mode()
def beam_steps(
    decoder: Generates,
    source: Any,
    ends: Collection[int],
    limits: Sequence[int],
    *,
    beam: int,
    norm: Callable[[int], float] = float,
    never: Collection[int] = (),
) -> BeamSteps:
    """The best continuations of B sources, step by step; `source` as the decoder begins with it.

    Args:
        ends: ids that end a text.
        limits: tokens that a text of each source may have, the end included.
        beam: K.
        norm: what scores are divided by, of a length, the end counted.
        never: ids that no text has.

    Yields:
        Once it has begun, then after each step: the sources that are done by it.
    """
    logits, state = decoder.begin(source)
    beams = {number: [list[int]()] for number in range(len(logits))}  # of sources not done
    ended: dict[int, list[Hypothesis]] = {number: [] for number in beams}
    scores = torch.zeros(len(beams), 1, device=logits.device)  # [sources, beams]
    excluded = send_numbers(list(never), logits.device)
    wide = (1 + max(1, len(ends))) * beam
    yield []
    for length in count(1):
        p = logits.float().log_softmax(1)
        p.index_fill_(1, excluded, -torch.inf)
        sums_of, beams_of, tokens_of = best_of(p, scores, wide)
        lists = [sums_of.tolist(), *torch.stack([beams_of, tokens_of]).tolist()]
        if any(math.isnan(found[0]) for found in lists[0]):  # NaN is larger than all
            raise NotFinite("probabilities")
        done: list[tuple[int, list[Hypothesis]]] = []
        kept = []
        for position, (number, *found) in enumerate(zip([*beams], *lists, strict=True)):
            before = beams.pop(number)
            own: list[tuple[int, int, float, list[int]]] = []
            for rank, (score, row, token) in enumerate(zip(*found, strict=True)):
                if score == -math.inf:
                    break
                stops = token in ends
                ids = before[row] if stops else [*before[row], token]
                if stops or length >= limits[number]:
                    if rank < beam:
                        why: Literal["stop", "length"] = "stop" if stops else "length"
                        ended[number].append(Hypothesis(score / norm(length), ids, why))
                elif len(own) < beam:
                    own.append((position * scores.shape[1] + row, token, score, ids))
            best = ended[number] = sorted(ended[number], key=lambda text: -text.score)[:beam]
            if not own or (len(best) == beam and own[0][2] / norm(length) <= best[-1].score):
                done.append((number, best))
                continue  # nothing goes on, or nothing better can come
            row, token, _, ids = own[0]  # of a tiny vocabulary: beams that cannot win
            own += [(row, token, -math.inf, ids)] * (beam - len(own))
            beams[number] = [ids for *_, ids in own]
            kept += own
        yield done
        if not kept:
            return
        rows, tokens, sums, _ = zip(*kept, strict=True)
        scores = send(torch.tensor(sums), logits.device).view(-1, beam)
        state = state.select(torch.tensor(rows))
        logits, state = decoder.advance(send_numbers(tokens, logits.device), state)
