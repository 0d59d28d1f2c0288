"""Examine what an n-gram model has learned, and make n-gram models of a text for other pages.

Losses are those of a run's own validation, with the same windows, so that all results of a page are
those of the same predictions. Bits per character are the bits of all predictions divided by the
number of characters of the predicted text, which does not depend on the length of tokens.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bertwright.config.generation import GenerationConfig
from bertwright.errors import BertwrightError, DataError
from bertwright.inference.encode import ModelRunner
from bertwright.inference.generate import generate
from bertwright.models.ngram.config import NgramConfig, NgramRun
from bertwright.models.ngram.count import count_ngrams
from bertwright.models.ngram.system import NGRAM, estimate
from bertwright.models.ngram.tables import Ngrams, NgramTable
from bertwright.nn.objective import Learner
from bertwright.recipes.learned.run import (
    FinishedRun,
    decoded_sentences,
    training_documents,
    validation_batches,
)
from bertwright.report import sections
from bertwright.report.verdict import Verdict
from bertwright.text.framing import ends_of

COUNTED = 2_000_000
"""The maximum number of training tokens that are counted for a page, which takes a few seconds."""
ORDER = 4
"""The order of the n-gram model that another language model is compared with."""
MOST_ORDER = 6
PROMPTS, NEW_TOKENS = 3, 24
_MEMORY = 256 << 20
_CLEAR = 0.01
"""The fraction by which the bits must be lower to count as better."""


@dataclass(frozen=True)
class Counted:
    """N-gram models of one training text."""

    tables: dict[int, list[NgramTable]]
    """For each order k of a model, its tables of the orders 1 to k."""
    tokens: int
    """The number of training tokens that were counted."""
    total: int
    """The number of all training tokens."""

    @property
    def of_what(self) -> str:
        """A description of the text that was counted."""
        if self.tokens == self.total:
            return "the same training text"
        return f"the first {self.tokens:,} of {self.total:,} training tokens"


@dataclass(frozen=True)
class Losses:
    """The loss of a model on the validation of a run."""

    nats: float
    """The sum over all predictions."""
    predictions: int
    characters: int
    """The number of characters of the predicted text."""

    @property
    def bits(self) -> float:
        """The bits per character of the predicted text."""
        return self.nats / math.log(2) / max(1, self.characters)

    @property
    def perplexity(self) -> float:
        """The perplexity per token."""
        return math.exp(min(700.0, self.nats / max(1, self.predictions)))


def count(run: FinishedRun, orders: Iterable[int], most: int = COUNTED) -> Counted:
    """Count the n-grams of a run's training text, and estimate a model of each order.

    Args:
        run: the run. If it is one of an n-gram model, its smoothing and pruning are used.
        orders: the orders of the models; those for which all documents are too short are left out.
        most: the maximum number of tokens that are counted.
    """
    shards, documents, tokens, total = training_documents(run.shards, run.config, most)
    wanted = sorted(orders)
    prune: Sequence[int] = ()
    k = None
    if isinstance(run.config, NgramRun):
        prune = run.config.prune
        k = run.config.k if run.config.smoothing == "add-k" else None
    begin = (ends_of(shards.special) or [None])[0]
    tables: dict[int, list[NgramTable]] = {}
    with tempfile.TemporaryDirectory(prefix="bertwright-ngrams-") as folder:
        while wanted:
            place = Path(folder) / str(wanted[-1])
            place.mkdir()
            try:
                counts = count_ngrams(shards, documents, wanted[-1], place, _MEMORY)
            except DataError:  # no document is long enough
                wanted.pop()
                continue
            for order in wanted:
                thresholds = [0] * order
                for number in range(order):
                    if prune:
                        thresholds[number] = prune[min(number, len(prune) - 1)]
                tables[order], _ = estimate(counts[:order], begin, thresholds, k)
            break
    return Counted(tables, tokens, total)


def model_of(tables: Sequence[NgramTable], vocab_size: int) -> Learner:
    """Return the n-gram model of the given tables."""
    sizes = tuple(len(table.keys) for table in tables[1:])
    learner = NGRAM.make_learner(NgramConfig(vocab_size, len(tables), sizes), ["next_token"])
    head = learner.objectives["next_token"]
    assert isinstance(head, Ngrams)
    head.set_tables(tables)
    return learner.eval()


def runner_of(run: FinishedRun, learner: Learner) -> ModelRunner:
    """Return a runner of an n-gram model with the tokenizer of a run's model."""
    runner = run.model.runner
    return ModelRunner(
        learner, runner.tokenizer, torch.device("cpu"), runner.batch_tokens, "the n-gram model"
    )


def losses(run: FinishedRun, learners: Sequence[Learner]) -> list[Losses]:
    """Return the losses of language models on the validation of a run."""
    nats, predictions, characters = [0.0] * len(learners), 0, 0
    for batch in validation_batches(run.shards, run.config, "dev"):
        labels = batch.tokens[batch.positions + 1]
        predictions += len(labels)
        characters += len(run.tokenizer.decode(labels.tolist()))
        with torch.inference_mode():
            for number, learner in enumerate(learners):
                (loss,) = learner(batch).values()
                nats[number] += float(loss.total)
    return [Losses(each, predictions, characters) for each in nats]


def seen(run: FinishedRun, learner: Learner) -> list[tuple[float, float]]:
    """Return which fractions of the predictions of the validation an n-gram model has seen.

    For each order k, they are the fraction whose context of k - 1 tokens is in the model, and the
    fraction whose n-gram of k tokens is.
    """
    head: Any = learner.objectives["next_token"]
    contexts, ngrams, total = [0] * head.order, [0] * head.order, 0
    for batch in validation_batches(run.shards, run.config, "dev"):
        at = batch.positions
        with torch.inference_mode():
            x = learner.encoder(batch.inputs).at(at)
            rows = head.rows(torch.cat([x, batch.tokens[at + 1][:, None]], 1))
        total += len(at)
        for k in range(head.order):
            ngrams[k] += int((rows[k][:, -1] >= 0).sum())
            contexts[k] += int((rows[k - 1][:, -2] >= 0).sum()) if k else len(at)
    return [(c / max(1, total), n / max(1, total)) for c, n in zip(contexts, ngrams, strict=True)]


def prompts_of(run: FinishedRun) -> list[tuple[str, str]]:
    """Return the beginnings of held-out sentences, each with the rest of its sentence."""
    tokenizer = run.tokenizer
    decode, inside = tokenizer.decode, tokenizer.is_continuation
    found = decoded_sentences(run, 10, 60, PROMPTS) or decoded_sentences(run, 3, 200, PROMPTS)
    pairs = []
    for ids, _ in found:
        cut = min(8, len(ids) // 2)
        while cut < len(ids) - 1 and inside[ids[cut]]:  # a prompt ends with a whole word
            cut += 1
        whole, begin = decode(ids), decode(ids[:cut])
        pairs.append((begin, whole.removeprefix(begin)))
    return pairs


def continuations(run: FinishedRun, runners: dict[str, ModelRunner]) -> sections.Section | None:
    """Return a table with the continuations of held-out prompts by several models.

    The result is None if no held-out sentence is long enough for a prompt.

    Args:
        run: the run whose held-out text the prompts are from.
        runners: the models by their names.
    """
    prompts = prompts_of(run)
    if not prompts:
        return None
    config = GenerationConfig(max_new_tokens=NEW_TOKENS, sample=True, top_p=0.9)
    columns = [[prompt for prompt, _ in prompts], [truth for _, truth in prompts]]
    names = ["held-out prompt", "as the text goes on"]
    for name, runner in runners.items():
        try:
            texts = dict(generate(runner, columns[0], config))
        except BertwrightError:  # a model whose window is too short, or that does not generate
            continue
        names.append(name)
        columns.append([texts[number][0].text for number in range(len(prompts))])
    note = (
        "The prompts are the beginnings of held-out sentences, drawn at random before any model was"
        " run. Each continuation is one sample (top-p 0.9, seed 0)."
    )
    rows = list(zip(*columns, strict=True))
    return sections.table("Continuations", names, rows, note, even=True)


def _orders(run: FinishedRun) -> tuple[Counted, list[int], list[Losses], Losses]:
    """Return n-gram models up to the order of the run's model, their orders and losses, and the
    loss of the run's model.
    """
    order = run.model.config.order
    counted = count(run, {*range(1, min(order, MOST_ORDER) + 1)})
    learners = {k: model_of(tables, run.shards.vocab_size) for k, tables in counted.tables.items()}
    *by_order, own = losses(run, [*learners.values(), run.model.runner.learner])
    return counted, list(learners), by_order, own


def examine(run: FinishedRun) -> dict[str, Any]:
    """Return the content of `examples.json`: the orders, the n-grams seen, and continuations."""
    counted, orders, by_order, own = run.once(_orders)
    shares = seen(run, run.model.runner.learner)
    rows = [
        [
            str(k),
            f"{len(counted.tables[k][-1].keys):,}",
            f"{each.perplexity:,.1f}",
            f"{each.bits:.3f}",
            f"{shares[k - 1][0]:.1%}",
            f"{shares[k - 1][1]:.1%}",
        ]
        for k, each in zip(orders, by_order, strict=True)
    ]
    note = (
        f"Each row is a model of that order, counted on {counted.of_what}, and evaluated on the "
        f"{own.predictions:,} predictions of {run.validation_text}. The last two columns are of "
        "this run's model: how many of these predictions have a context that training text has, "
        "and how many the whole n-gram."
    )
    columns = [
        "order",
        "n-grams",
        "perplexity",
        "bits a character",
        "contexts seen",
        "n-grams seen",
    ]
    shown = [sections.table("By order", columns, rows, note, numbers=range(6))]
    if len(orders) > 1:
        bits = {"bits a character": [each.bits for each in by_order]}
        shown.append(sections.lines("Bits a character", "order", [str(k) for k in orders], bits))
    top = orders[-1] if orders else 1
    runners = {"this model": run.model.runner}
    if top > 2:
        lower = model_of(counted.tables[2], run.shards.vocab_size)
        runners["pairs of tokens alone (order 2)"] = runner_of(run, lower)
    if (continued := continuations(run, runners)) is not None:
        shown.append(continued)
    return {"sections": shown}


def verdict(run: FinishedRun) -> Verdict:
    """Return whether an n-gram model predicts held-out text better than token frequencies do."""
    if not run.last:
        return Verdict("unknown", "")
    _, orders, by_order, own = run.once(_orders)
    if not orders or run.model.config.order == 1:
        return Verdict("unknown", f"On its validation text {own.bits:.2f} bits a character.")
    unigram = by_order[0]
    figures = (
        f"{own.bits:.2f} bits a character on its validation text (perplexity "
        f"{own.perplexity:,.1f}), token frequencies alone {unigram.bits:.2f}."
    )
    if own.bits < unigram.bits * (1 - _CLEAR):
        return Verdict("yes", f"It has learned: {figures}")
    return Verdict(
        "no",
        f"It has learned nothing yet: {figures} There is too little text for this order: give it "
        "more, or lower --architecture.order.",
    )
