"""Score texts with language models: the log-probability of every token.

A left-to-right model has a `next_token` head, which scores each token given those before it. A text
longer than the model reads at once is read in overlapping windows. The first tokens of a window
(all but `stride`) are only context, so that every token outside the first window has at least that
much context. A masked language model scores each token given all others, with one mask at a time:
the pseudo-log-likelihood of Salazar et al. 2020 (Masked Language Model Scoring, section 2).

Letters: T tokens of a sequence with the tokens for begin and end, L tokens of a window, K scored
tokens of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from bertwright.arrays import Float64s
from bertwright.errors import ConfigError, DataError
from bertwright.inference.encode import Ids, ModelRunner, listed, parts_of, positions_in
from bertwright.nn.finite import require_finite
from bertwright.nn.objective import GivesLogits

WINDOW = 1024
"""The default of L for a model that reads texts of any length."""
GROUP_BATCHES = 8
"""The number of batches whose masked copies are made at once, so that few batches are only partly
filled.
"""


@dataclass(frozen=True)
class TextScore:
    """The log-probabilities of a text's tokens."""

    tokens: list[int]
    """The ids of the tokens that are predicted, including the one for the end."""
    log_probabilities: Float64s
    """The natural logarithm of the probability of each of them."""

    @property
    def log_probability(self) -> float:
        """The log-probability of the text: the sum over its tokens."""
        return float(self.log_probabilities.sum())

    @property
    def perplexity(self) -> float:
        """The perplexity: exp(- mean log-probability of a token)."""
        return float(np.exp(-self.log_probabilities.mean())) if self.tokens else float("nan")


def score(
    runner: ModelRunner,
    texts: Iterable[str],
    max_length: int | None = None,
    stride: int | None = None,
) -> list[TextScore]:
    """Score texts, each with the tokens for begin and end if the tokenizer has them.

    Args:
        runner: the model.
        texts: the texts.
        max_length: L; None: what the model reads at once, or 1,024.
        stride: the number of tokens from one window to the next; None: half a window.

    Raises:
        ConfigError: the window or the stride is invalid.
        DataError: the inputs are not texts, the model has no head that scores, or a text is too
            long for a masked language model.
    """
    given = [parts_of(number, text) for number, text in enumerate(listed(texts))]
    if any(len(parts) > 1 for parts in given):
        raise DataError("a text to score is one str; this is a pair: score its texts one by one")
    ids = runner.tokenizer.encode_bare_ids([text for (text,) in given])
    framed = [runner.tokenizer.framing.one(each) for each in ids]
    return score_ids(runner, framed, max_length, stride)


def score_ids(
    runner: ModelRunner,
    sequences: Ids,
    max_length: int | None = None,
    stride: int | None = None,
) -> list[TextScore]:
    """Score sequences of T ids that include the tokens for begin and end; see `score`."""
    if is_pseudo(runner):
        return _score_masked(runner, sequences)
    runner.require("next_token", "the probability of a text")
    longest = runner.spec.max_length or WINDOW
    length = min(longest, max_length or longest)
    stride = length // 2 if stride is None else stride
    if length < 2 or not 0 < stride < length:
        raise ConfigError(
            f"max_length is {length} and stride {stride}; expected 2 or more tokens, and a stride "
            "from 1 to below max_length"
        )
    head: Any = runner.learner.objectives["next_token"]
    if not scores_texts(runner):
        raise DataError(
            f"the head of {runner.name} predicts {head.title}: it scores no text; "
            "expected a model that predicts the next token, such as an n-gram model or a GPT"
        )
    windows, read, tokens = [], [], []
    for sequence in sequences:
        for first, stop, start in windows_of(len(sequence), length, stride):
            windows.append(sequence[first:stop])
            read.append(list(range(start - first, stop - first - 1)))
            tokens.append(sequence[start + 1 : stop])
    scores = [np.zeros(0)] * len(windows)
    for rows, encoded in runner.run(windows, positions=read):
        at = encoded.positions
        if at is None:
            at = positions_in(rows, encoded.sequences, read)
        labels = [token for row in rows for token in tokens[row]]
        with torch.inference_mode():
            log_probabilities = head.log_probabilities(
                encoded.at(at), torch.tensor(labels, dtype=torch.long, device=at.device)
            )
        ends = np.cumsum([len(tokens[row]) for row in rows])[:-1]
        logs = require_finite(log_probabilities.double().cpu().numpy(), "probabilities")
        for row, of_window in zip(rows, np.split(logs, ends), strict=True):
            scores[row] = of_window
    of_texts, number = [], 0
    for sequence in sequences:
        count = len(windows_of(len(sequence), length, stride))
        parts = scores[number : number + count]
        number += count
        of_texts.append(TextScore([*sequence[1:]], np.concatenate([np.zeros(0), *parts])))
    return of_texts


def is_pseudo(runner: ModelRunner) -> bool:
    """Return whether a model scores by pseudo-log-likelihood: it has a masked-LM head and no
    next-token head.
    """
    heads = runner.learner.objectives
    return "masked_lm" in heads and "next_token" not in heads


def scores_texts(runner: ModelRunner) -> bool:
    """Return whether a model gives the probability of texts: it is a masked language model, or its
    next-token head gives that of single tokens.
    """
    heads = dict(runner.learner.objectives.items())
    return is_pseudo(runner) or hasattr(heads.get("next_token"), "log_probabilities")


def windows_of(total: int, length: int, stride: int) -> list[tuple[int, int, int]]:
    """Return (first token, end, the token before the first that is scored) for each window."""
    windows, scored = [], 0
    for first in range(0, max(1, total), stride):
        stop = min(first + length, total)
        if stop - 1 > scored:
            windows.append((first, stop, scored))
            scored = stop - 1
        if stop == total:
            break
    return windows


def _score_masked(runner: ModelRunner, sequences: Ids) -> list[TextScore]:
    """Score each token except those for begin and end given all others, with one mask in each
    copy of its sequence. The copies of many sequences share a batch.
    """
    longest, framing = runner.spec.max_length, runner.tokenizer.framing
    scored: list[TextScore] = []
    group: list[tuple[Sequence[int], list[int]]] = []
    tokens = 0
    for sequence in sequences:
        if longest is not None and len(sequence) > longest:
            raise DataError(
                f"a text has {len(sequence)} tokens; this masked language model reads {longest}, "
                "and scores a token by all others: score shorter texts (--documents line)"
            )
        (inside,) = framing.inside(len(sequence) - framing.special_tokens())
        positions = list(range(len(sequence)))[inside]
        group.append((sequence, positions))
        tokens += len(sequence) * len(positions)
        if tokens >= GROUP_BATCHES * runner.batch_tokens:
            scored += _score_copies(runner, group)
            group, tokens = [], 0
    return scored + (_score_copies(runner, group) if group else [])


def _score_copies(
    runner: ModelRunner, group: Sequence[tuple[Sequence[int], list[int]]]
) -> list[TextScore]:
    """Score the tokens at the given positions of each sequence, each in a copy that masks it."""
    head = cast(GivesLogits, runner.learner.objectives["masked_lm"])
    masked, read, labels = [], [], []
    for sequence, positions in group:
        for position in positions:
            copy = [*sequence]
            copy[position] = runner.tokenizer.mask_id
            masked.append(copy)
            read.append([position])
            labels.append(sequence[position])
    targets = torch.tensor(labels, dtype=torch.long, device=runner.device)
    scores = np.zeros(len(labels))
    for rows, encoded in runner.run(masked, positions=read):
        with torch.inference_mode():
            logits = head.logits(encoded.last).float().log_softmax(-1)
            logs = logits.gather(1, targets[rows][:, None])[:, 0]
        scores[rows] = require_finite(logs.double().cpu().numpy(), "probabilities")
    ends = np.cumsum([len(positions) for _, positions in group])[:-1]
    return [
        TextScore([sequence[position] for position in positions], of_sequence)
        for (sequence, positions), of_sequence in zip(group, np.split(scores, ends), strict=True)
    ]


def mix(scores: Sequence[TextScore], weights: Sequence[float]) -> TextScore:
    """Return one text's scores under several models, with their probabilities interpolated
    linearly.
    """
    rows = np.stack([each.log_probabilities for each in scores])
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(weights, float))[:, None]
    return TextScore(scores[0].tokens, np.logaddexp.reduce(rows + logs, 0))


def best_weights(log_probabilities: Float64s, rounds: int = 100) -> list[float]:
    """Return the weights that maximize the likelihood of held-out text.

    `log_probabilities` are `[models, tokens]`. The method is EM (Jelinek and Mercer 1980).
    """
    weights = np.full(len(log_probabilities), 1 / len(log_probabilities))
    for _ in range(rounds):
        joint = log_probabilities + np.log(np.maximum(weights, 1e-300))[:, None]
        updated = np.exp(joint - np.logaddexp.reduce(joint, 0)).mean(1)
        if np.abs(updated - weights).max() < 1e-6:
            break
        weights = updated
    return [float(weight) for weight in updated / updated.sum()]
