"""Sequence to sequence as a system: pairs of sentences in, the target out."""

from __future__ import annotations

from typing import cast

import torch

from bertwright.data.shards import Shards
from bertwright.errors import ConfigError, DataError
from bertwright.models.catalogue import MODELS
from bertwright.models.seq2seq.config import Seq2SeqConfig, Seq2SeqRun
from bertwright.models.seq2seq.encoder import Seq2Seq, Seq2SeqDecoder, seq2seq_spec
from bertwright.models.system import RunSources, System
from bertwright.models.translation import initialize, pairs
from bertwright.nn.encoder import Encoder
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.translation import Translation
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def translation(config: Seq2SeqConfig, encoder: Encoder) -> Translation:
    """Return the decoder that attends to the encoder, with the token vectors of the target."""
    assert isinstance(encoder, Seq2Seq)
    decoder = Seq2SeqDecoder(config, encoder)
    return Translation(decoder, decoder.table, config.label_smoothing)


def initialize_seq2seq(
    learner: Learner, run: Seq2SeqRun, shards: Shards, sources: RunSources
) -> None:
    """Initialize the weights as published, and copy the word vectors that a fixed source has
    (CoVe). A word without a vector gets zeros.
    """
    initialize(learner, run, shards, sources)
    words = sources.words
    if words is None:
        return
    table, width = cast(Seq2Seq, learner.encoder).embeddings.weight.data, words.vectors.shape[1]
    if table.shape[1] != width:
        raise ConfigError(
            f"{run.word_vectors} has vectors of {width}, and embedding_size is {table.shape[1]}: "
            f"pass --architecture.embedding-size {width}"
        )
    tokenizer = load_tokenizer(shards.tokenizer_folder)
    known = 0
    for number in set(range(len(table))) - tokenizer.special_ids:
        spelling = words.spelling(tokenizer.tokens_of([number])[0])
        known += spelling is not None
        row = 0.0 if spelling is None else torch.tensor(words.vectors[words.row[spelling]])
        table[number] = row
    if not known:
        raise DataError(
            f"no word of the vocabulary of {shards.folder} has a vector in {run.word_vectors}: "
            "expected a vocabulary of words (bertwright tokenizer train --algorithm word)"
        )


SEQ2SEQ = System(
    row=MODELS["seq2seq"],
    encoder=Seq2Seq,
    spec=seq2seq_spec,
    objectives={"translation": translation},
    instances=pairs,
    initialize=initialize_seq2seq,
)
