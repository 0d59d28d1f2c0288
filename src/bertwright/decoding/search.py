"""Greedy search, sampling and beam search over any model (`Generates`).

A step computes only the rows that have not finished; finished rows are not padded.

- Greedy search and sampling have a temperature, top-k (Fan et al. 2018), nucleus sampling (Holtzman
  et al. 2020), which keeps the smallest set of most probable tokens whose probability is at least
  p, and a repetition penalty t (Keskar et al. 2019, section 4.1): the logit of a token that has
  occurred is divided by t if it is positive and multiplied by t otherwise. The random numbers of a
  row depend only on its own seed.
- Beam search is that of transformers: of the 2 K best continuations of a source, the first K that
  do not end become beams. A continuation that ends and is among the first K is a hypothesis with
  the score `sum of log p / length^a`. A source is done when it has K hypotheses and no beam scores
  better at the current length.

Letters: B sources, R rows, K beams, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from bertwright.config.generation import GenerationConfig
from bertwright.nn.finite import NotFinite
from bertwright.nn.host import send, send_numbers

PART = 64
"""The size of the parts of the vocabulary whose maxima a beam search compares first."""
NUCLEUS = 1024
"""The number of tokens that nucleus sampling sorts first; it sorts the whole vocabulary only if
their probability is below p."""


class Generates(Protocol):
    """The interface of a decoder, which computes logits token by token.

    Its state (a KV cache, the states of an LSTM) has a method `select(rows)`, which returns the
    state of the given rows, `[r]` on the host, in this order and possibly repeated. Where rows may
    begin at different times, it also has `join(other)`, which returns the state of its own rows
    followed by those of the other. The search never reuses a state that it has passed on, so a
    decoder may change it in place.
    """

    def begin(self, source: Any) -> tuple[Tensor, Any]:
        """Read B prompts, or B sources to encode. Return the logits of the first token `[B, V]`,
        and the state."""

    def advance(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one token `[R]` of each row. Return the logits of the next token `[R, V]`, and the
        new state."""


@runtime_checkable
class ReadsParts(Generates, Protocol):
    """A decoder that may be able to read a prompt in parts."""

    reads_parts: bool
    """Whether it can read a prompt in parts. A model that reads a source bidirectionally needs the
    whole source at once."""

    def extend(self, source: Any, state: Any) -> tuple[Tensor, Any]:
        """Read further tokens of B prompts. Return the logits of the next token `[B, V]`, and the
        new state."""


@dataclass(eq=False)
class Row:
    """One text that is being generated, of at most `limit` tokens."""

    config: GenerationConfig
    limit: int
    prompt: Sequence[int] = ()
    """Tokens before the text, which count for the repetition penalty."""
    number: int = 0
    """The number of the text among those of its prompt, which is part of its seed."""
    ids: list[int] = field(default_factory=list)
    """The tokens generated so far, without the one that ended the text."""
    reason: Literal["stop", "length"] | None = None
    """The reason why the text ended; None while it has not. Setting it ends the row."""

    def __post_init__(self) -> None:
        self.random = Random(f"{self.config.seed} {self.number}")


class RowsInFlight:
    """Continuous batching: each step generates one token per row; finished rows leave and new ones
    may join between steps."""

    def __init__(
        self, decoder: Generates, ends: Collection[int], never: Collection[int] = ()
    ) -> None:
        """Start without rows.

        Args:
            ends: ids that end a text.
            never: ids that are never generated.
        """
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
        """Read B sources, and add one row or more for each; they join with the next step."""
        self._begin(*self.decoder.begin(source), rows)

    @property
    def reads_parts(self) -> bool:
        """Whether `add_in_parts` is possible with this decoder."""
        return isinstance(self.decoder, ReadsParts) and self.decoder.reads_parts

    @torch.inference_mode()
    def add_in_parts(self, ids: Sequence[int], rows: Sequence[Row], size: int) -> Iterator[None]:
        """Read one prompt, for one row or more, in parts of at most `size` tokens.

        Each `next` reads a part; steps may be made between them. The call that reads the last part
        adds the rows and ends the iterator.
        """
        decoder = self.decoder
        assert isinstance(decoder, ReadsParts)
        logits, state = decoder.begin([ids[:size]])
        for start in range(size, len(ids), size):
            yield
            logits, state = decoder.extend([ids[start : start + size]], state)
        self._begin(logits, state, [rows])

    def _begin(self, logits: Tensor, state: Any, rows: Sequence[Sequence[Row]]) -> None:
        """Add the rows of B prompts, which join with the next step.

        `logits` `[B, V]` and `state` have one row for each prompt, which is repeated for each of
        its texts.
        """
        owners = [number for number, of_prompt in enumerate(rows) for _ in of_prompt]
        if len(owners) > len(rows):
            index = torch.tensor(owners)
            logits = logits.index_select(0, send(index, logits.device))
            state = state.select(index)
        self._begun.append(([row for of_prompt in rows for row in of_prompt], logits, state))

    @torch.inference_mode()
    def step(self) -> list[Row]:
        """Generate a token for each row that has not ended. Return these rows."""
        parts, self._begun = self._begun, []
        unfinished = [number for number, row in enumerate(self.rows) if row.reason is None]
        if unfinished:
            state, rows = self._state, [self.rows[number] for number in unfinished]
            if len(unfinished) < len(self.rows):
                state = state.select(torch.tensor(unfinished))
            last = send_numbers([row.ids[-1] for row in rows], self._device)
            parts.insert(0, (rows, *self.decoder.advance(last, state)))
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
    """Return the next token of each row, given logits `[R, V]`, by the row's own configuration."""
    tokens = logits.argmax(1)  # argmax returns a NaN where there is one
    finite = logits.gather(1, tokens[:, None])[:, 0].isfinite()
    best: list[int]
    best, are_finite = torch.stack([tokens, finite.long()]).tolist()  # one copy from a GPU
    if not all(are_finite):
        raise NotFinite("logits")
    for number, row in enumerate(rows):
        config = row.config
        if config.sample or config.repetition_penalty != 1:
            x = logits[number]
            if config.repetition_penalty != 1:
                x = penalize(x, {*row.prompt, *row.ids}, config.repetition_penalty)
            best[number] = draw(x, config, row.random) if config.sample else int(x.argmax())
    return best


def penalize(x: Tensor, seen: Collection[int], penalty: float) -> Tensor:
    """Apply the repetition penalty: return logits `[V]` in which the tokens of `seen` are less
    probable."""
    if penalty == 1 or not seen:
        return x
    index = send_numbers(sorted(set(seen)), x.device)
    logits = x[index]
    return x.index_put((index,), torch.where(logits > 0, logits / penalty, logits * penalty))


def draw(x: Tensor, config: GenerationConfig, random: Random) -> int:
    """Draw a token from the distribution of logits `[V]`, with temperature, top-k and top-p."""
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
    """Find the best continuations of each of S sources.

    On a CPU only the parts of the vocabulary with the largest maxima are searched, which is several
    times as fast as a `topk` over the whole vocabulary.

    Args:
        p: log-probabilities, `[S K, V]`.
        scores: the score of each beam, `[S, K]`, added to its log-probabilities.
        size: the number of continuations.

    Returns:
        The scores of the continuations, best first, their beams and their tokens, `[S, size]` each.
    """
    beams, vocabulary = scores.shape[1], p.shape[1]
    whole = vocabulary // PART * PART
    if p.is_cuda or whole < size * PART:
        every = (p.view(*scores.shape, -1) + scores[:, :, None]).flatten(1)
        top = every.topk(min(size, every.shape[1]))
        return top.values, top.indices // vocabulary, top.indices % vocabulary
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
    """A finished text of a beam search."""

    score: float
    """Its log-probability, divided by the norm of its length (see `beam_steps`)."""
    ids: list[int]
    """Its tokens, without the one that ended it."""
    reason: Literal["stop", "length"]


BeamSteps = Iterator[list[tuple[int, list[Hypothesis]]]]
"""The steps of a beam search; each yields the numbers of the sources that it finished, with their
hypotheses."""


def finish(steps: BeamSteps) -> list[list[Hypothesis]]:
    """Run a beam search to its end and return at most K hypotheses per source, best first."""
    hypotheses = dict(source for finished in steps for source in finished)
    return [hypotheses[number] for number in sorted(hypotheses)]


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
    """Run a beam search over B sources, step by step.

    Args:
        source: the argument of `decoder.begin`.
        ends: ids that end a text.
        limits: the maximum length of a text of each source, the end included.
        beam: K.
        norm: maps the length of a text, its end included, to the number by which its
            log-probability is divided.
        never: ids that are never generated.

    Yields:
        An empty list after the sources are read, then after each step the numbers of the sources
        that it finished and their hypotheses.
    """
    logits, state = decoder.begin(source)
    beams = {number: [list[int]()] for number in range(len(logits))}  # of unfinished sources
    ended: dict[int, list[Hypothesis]] = {number: [] for number in beams}
    scores = torch.zeros(len(beams), 1, device=logits.device)  # [sources, beams]
    excluded = send_numbers(list(never), logits.device)
    wide = (1 + max(1, len(ends))) * beam
    yield []
    for length in count(1):
        p = logits.float().log_softmax(1)
        p.index_fill_(1, excluded, -torch.inf)
        sums_of, beams_of, tokens_of = best_of(p, scores, wide)
        found = torch.stack([sums_of.double(), beams_of.double(), tokens_of.double()])
        lists: list[Any] = found.tolist()  # one copy from a GPU; numbers of tokens stay exact
        if any(math.isnan(sums[0]) for sums in lists[0]):  # a NaN sorts first
            raise NotFinite("probabilities")
        done: list[tuple[int, list[Hypothesis]]] = []
        continued = []
        for position, (number, *best_lists) in enumerate(zip([*beams], *lists, strict=True)):
            before = beams.pop(number)
            own: list[tuple[int, int, float, list[int]]] = []  # the new beams of this source
            for rank, (score, *place) in enumerate(zip(*best_lists, strict=True)):
                if score == -math.inf:
                    break
                row, token = map(int, place)
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
                continue  # no beam continues, or none can become better
            row, token, _, ids = own[0]  # in a tiny vocabulary, fill up with beams that cannot win
            own += [(row, token, -math.inf, ids)] * (beam - len(own))
            beams[number] = [ids for *_, ids in own]
            continued += own
        yield done
        if not continued:
            return
        rows, tokens, new_scores, _ = zip(*continued, strict=True)
        scores = send(torch.tensor(new_scores), logits.device).view(-1, beam)
        state = state.select(torch.tensor(rows))
        logits, state = decoder.advance(send_numbers(tokens, logits.device), state)
