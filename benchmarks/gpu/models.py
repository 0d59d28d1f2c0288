"""Models of published size with random weights, and batches of random ids: ours and those of
transformers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertwright.checkpoint import checkpoint
from bertwright.data.batch import inputs_of
from bertwright.data.token_streams import TokenStreamBatch
from bertwright.models.bert.config import PRESETS
from bertwright.models.bert.masked_batch import MaskedBatch
from bertwright.models.gpt.config import Gpt2Config
from bertwright.nn.objective import Learner

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_VOCABULARY, GPT2_VOCABULARY = 30522, 50257
MASKED = 0.15

TINY: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
"""Heads of 8, so that the variable-length kernel takes them."""
ENCODER_DECODER: dict[str, Any] = {**TINY, "intermediate_size": 48}
SMALL_BERT: dict[str, Any] = {**ENCODER_DECODER, "max_position_embeddings": 512}


def import_peers(*more: str) -> dict[str, Any]:
    """Import what stands beside us, so that no check waits for it; its versions."""
    names = ("transformers", *more)
    return {name: str(import_module(name).__version__) for name in names}


@dataclass(frozen=True)
class Size:
    """A model and a kind of batch whose training step is timed."""

    model: str
    length: int
    mixed: bool
    tokens: int
    title: str = ""

    @property
    def name(self) -> str:
        """For the record: the title, or what it is."""
        return (
            self.title
            or f"{self.model}, {self.length}, {'mixed' if self.mixed else 'fixed'} lengths"
        )

    def lengths(self) -> list[int]:
        """Lengths of the sequences, longest first, about `tokens` in all: all the longest, or of
        even chance from a sixteenth of it to it."""
        if not self.mixed:
            return [self.length] * max(1, self.tokens // self.length)
        chance, found = random.Random(self.length), [self.length]
        while sum(found) < self.tokens:
            found.append(chance.randint(max(4, self.length // 16), self.length))
        return sorted(found, reverse=True)


def our_learner(size: Size, shrink: bool) -> Learner:
    """Ours, random weights, without dropout as its recipes are; tiny where `shrink`."""
    drops: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    if size.model == "gpt2":
        drops |= {**TINY, "vocab_size": 200, "max_position_embeddings": 1024} if shrink else {}
        config: Any = replace(Gpt2Config(vocab_size=GPT2_VOCABULARY), **drops)
        return checkpoint.make_learner(config, ["next_token"])
    drops["vocab_size"] = 200 if shrink else BERT_VOCABULARY
    drops |= SMALL_BERT if shrink else {}
    return checkpoint.make_learner(replace(PRESETS[size.model], **drops), ["masked_lm"])


def our_batch(size: Size, vocabulary: int, device: torch.device) -> Any:
    """Random ids of such lengths, on a device."""
    chance = np.random.default_rng(size.length)
    lengths = np.array(size.lengths())
    total = int(lengths.sum())
    inputs = inputs_of(chance.integers(5, vocabulary, total), lengths)
    if size.model == "gpt2":
        ends = lengths.cumsum() - 1
        at = np.setdiff1d(np.arange(total), ends)
        return TokenStreamBatch(inputs, inputs.ids, torch.from_numpy(at)).to(device)
    masked = np.sort(chance.choice(total, int(MASKED * total), replace=False))
    labels = chance.integers(5, vocabulary, len(masked))
    return MaskedBatch(
        inputs,
        torch.from_numpy(masked),
        torch.from_numpy(labels),
        None,
        torch.arange(len(lengths)),
    ).to(device)


def their_model(size: Size, shrink: bool) -> Any:
    """The model of transformers of the same sizes, by SDPA, without dropout."""
    transformers: Any = import_module("transformers")
    if size.model == "gpt2":
        small = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 200} if shrink else {}
        drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        config: Any = transformers.GPT2Config(**small, **drops, attn_implementation="sdpa")
        return transformers.GPT2LMHeadModel(config)
    ours = replace(PRESETS[size.model], **(SMALL_BERT if shrink else {}))
    config = transformers.BertConfig(
        vocab_size=200 if shrink else BERT_VOCABULARY,
        hidden_size=ours.hidden_size,
        num_hidden_layers=ours.num_hidden_layers,
        num_attention_heads=ours.num_attention_heads,
        intermediate_size=ours.intermediate_size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    return transformers.BertForMaskedLM(config)


def their_batch(size: Size, vocabulary: int, device: torch.device) -> dict[str, Tensor]:
    """The same lengths as a padded rectangle, in random order as a collator gets them; no mask
    where nothing is padded."""
    generator = torch.Generator().manual_seed(size.length)
    lengths = torch.tensor(size.lengths())
    lengths = lengths[torch.randperm(len(lengths), generator=generator)]
    shape = len(lengths), int(lengths.max())
    ids = torch.randint(5, vocabulary, shape, generator=generator)
    real = torch.arange(shape[1]) < lengths[:, None]
    labels = ids.clone()
    if size.model != "gpt2":
        chosen = torch.rand(shape, generator=generator) < MASKED
        labels = labels.masked_fill(~chosen, -100)
    labels = labels.masked_fill(~real, -100)
    batch = {"input_ids": ids.masked_fill(~real, 0), "labels": labels}
    if size.mixed:
        batch["attention_mask"] = real.long()
    return {name: x.to(device) for name, x in batch.items()}
