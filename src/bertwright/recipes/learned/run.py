"""Open a pre-training run for its page: its model, its text, and the batches of its validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bertwright.arrays import Int64s
from bertwright.config.run import EvaluatedRun, RunConfig
from bertwright.data.loading.epoch_loader import EpochLoader
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_text
from bertwright.inference.model import Model, load
from bertwright.models.load import system_of
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer

COUNTED_TOKENS = 8_000_000
"""The maximum number of training tokens whose frequencies are counted."""
Record = Mapping[str, Any]
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run whose model is examined for a page."""

    folder: Path
    config: RunConfig
    shards: Shards
    records: Sequence[Record]
    """The records of its log."""
    names: Sequence[tuple[str, str]] | None = None
    """A name and a group for each document of the shards; None: documents have numbers."""
    made: dict[Callable[..., Any], Any] = field(default_factory=dict, repr=False)
    """The results of `once`, by function."""

    def once(self, make: Callable[[FinishedRun], Made]) -> Made:
        """Return the result of `make(self)`, which is computed only once.

        The verdict and the page share it.
        """
        if make not in self.made:
            self.made[make] = make(self)
        made: Made = self.made[make]
        return made

    @cached_property
    def model(self) -> Model:
        """The model, loaded when it is first needed."""
        return load(self.folder)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of its text, which is also that of its model."""
        return load_tokenizer(self.shards.tokenizer_folder)

    @property
    def last(self) -> Record:
        """The record of the last validation; empty if there is none."""
        validations = [record for record in self.records if record.get("split") == "dev"]
        return validations[-1] if validations else {}

    @property
    def validation_text(self) -> str:
        """A description of the text that its validation, and the bits on its page, are of.

        `perplexity` and `compare` evaluate other texts, so their bits of the same model differ.
        """
        return f"the validation text, a part of {self.config.data} that it was not trained on"

    @property
    def step(self) -> Any:
        """The step of the model that the page shows."""
        return (self.last or (self.records or [{}])[-1]).get("step")

    @cached_property
    def frequencies(self) -> tuple[Int64s, Int64s]:
        """The count and the most frequent next token of each token in training text, `[V]` each."""
        return token_tables(self.shards, self.config)


def validation_batches(shards: Shards, config: RunConfig, split: Split) -> list[Any]:
    """Return the batches of a run's validation; for `train`, batches of about as many tokens."""
    assert isinstance(config, EvaluatedRun)
    instances = system_of(config).evaluated_on(config, shards, split)
    assert instances is not None
    data = EpochLoader(instances)
    tokens = min(config.validation.tokens, data.tokens_in_epoch(0))
    return data.step(0, 0, tokens, max(4096, instances.longest))


def validation_labels(shards: Shards, config: RunConfig, labels: str) -> Int64s:
    """Return the labels of a run's validation; `labels` is their name in a batch."""
    batches = validation_batches(shards, config, "dev")
    return np.concatenate([getattr(batch, labels).numpy() for batch in batches])


def most_frequent_label(shards: Shards, config: RunConfig, labels: str) -> float:
    """Return the fraction of the validation's labels that are the most frequent one.

    Args:
        shards: the text.
        config: the configuration of the run.
        labels: the name of the labels in a batch.
    """
    truth = validation_labels(shards, config, labels)
    return float(np.bincount(truth).max() / len(truth))


def training_documents(
    shards: Shards, config: RunConfig, most: int
) -> tuple[Shards, Int64s, int, int]:
    """Return the first training documents of a run, with at most `most` tokens in all.

    At least one document is returned.

    Returns:
        The shards that contain the documents, the numbers of the documents in them, the number of
        their tokens, and the number of all training tokens.
    """
    if not isinstance(config, EvaluatedRun):  # all text is training text
        documents = np.arange(shards.num_documents)
    else:
        held = config.validation
        shards, documents, _ = split_text(shards, "train", held.fraction, held.hold_out)
    starts = shards.sentence_tokens[shards.document_sentences]
    sizes = np.cumsum(starts[documents + 1] - starts[documents])
    count = max(1, int((sizes <= most).sum()))
    return shards, documents[:count], int(sizes[count - 1]), int(sizes[-1])


def token_tables(shards: Shards, config: RunConfig) -> tuple[Int64s, Int64s]:
    """Return the count and the most frequent next token of each token in training text, `[V]` each.

    For a token that is never followed by another, the next token is the most frequent one of all.
    """
    parts, documents, _, _ = training_documents(shards, config, COUNTED_TOKENS)
    first = parts.sentence_tokens[parts.document_sentences[documents]]
    last = parts.sentence_tokens[parts.document_sentences[documents + 1]]
    pieces = [parts.tokens(*ends) for ends in zip(first.tolist(), last.tolist(), strict=True)]
    ids = np.concatenate(pieces)
    size = shards.vocab_size
    occurrences = np.bincount(ids, minlength=size)
    bigrams, counts = np.unique(ids[:-1] * size + ids[1:], return_counts=True)
    behind = np.full(size, int(occurrences.argmax()), np.int64)
    order = np.argsort(counts, kind="stable")  # the most frequent next token is written last
    behind[bigrams[order] // size] = bigrams[order] % size
    return occurrences, behind


def decoded_sentences(
    run: FinishedRun, least: int, most: int, count: int
) -> list[tuple[list[int], int]]:
    """Return held-out sentences, drawn at random and always the same.

    Args:
        run: the run.
        least, most: the minimum and the maximum number of tokens of a sentence.
        count: the maximum number of sentences.

    Returns:
        The ids of each sentence, and the number of its document.
    """
    assert isinstance(run.config, EvaluatedRun)
    held = run.config.validation
    shards, documents, numbers = split_text(run.shards, "dev", held.fraction, held.hold_out)
    first = shards.document_sentences[documents]
    last = shards.document_sentences[documents + 1]
    sentences = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    owners = np.repeat(numbers, last - first)
    lengths = np.diff(shards.sentence_tokens)[sentences]
    fitting = np.flatnonzero((lengths >= least) & (lengths <= most))
    drawn = np.random.default_rng(0).permutation(fitting)[:count]
    ends = [shards.sentence_tokens[sentences[n] : sentences[n] + 2].tolist() for n in drawn]
    ids = [shards.tokens(start, stop).tolist() for start, stop in ends]
    return list(zip(ids, owners[drawn].tolist(), strict=True))
