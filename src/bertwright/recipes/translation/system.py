"""Translation models as systems: pairs of sentences in, the target out."""

from __future__ import annotations

import torch

from bertwright.config.runs.translation import Seq2SeqRun, TranslationRun
from bertwright.data.parallel.pairs import ParallelText
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.errors import ConfigError, DataError
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.seq2seq import Seq2Seq
from bertwright.objectives.objective import Learner
from bertwright.objectives.translation import Translation
from bertwright.recipes.systems import System
from bertwright.text.tokenizer.tokenizer import load_tokenizer


def pairs(run: TranslationRun, shards: Shards, split: Split, seed: int) -> ParallelText:
    """The pairs of a split as the run reads them."""
    documents = split_documents(shards, split, run.validation.share)
    return ParallelText(shards, documents, run.sequence_length, seed=seed)


def initialize(learner: Learner, run: TranslationRun, shards: Shards) -> None:
    """The encoder, then the decoder, as published."""
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    translation = learner.objectives["translation"]
    assert isinstance(translation, Translation)
    translation.reset_parameters(generator)


def initialize_seq2seq(learner: Learner, run: Seq2SeqRun, shards: Shards) -> None:
    """The same, and the word vectors that the source keeps; a word without one has zeros.

    Raises:
        ConfigError: they are of another width.
        DataError: no word of the vocabulary has one.
    """
    initialize(learner, run, shards)
    if run.word_vectors is None:
        return
    words = open_words(run.word_vectors)
    encoder = learner.encoder
    assert isinstance(encoder, Seq2Seq)
    table, width = encoder.embeddings.weight.data, words.vectors.shape[1]
    if table.shape[1] != width:
        raise ConfigError(
            f"{run.word_vectors} has vectors of {width}, and embedding_size is {table.shape[1]}: "
            f"pass --architecture.embedding-size {width}"
        )
    tokenizer = load_tokenizer(shards.tokenizer_folder)
    known = 0
    for number, word in enumerate(tokenizer.tokens_of(range(len(table)))):
        if number not in tokenizer.special_ids:
            spelling = words.spelling(word)
            known += spelling is not None
            row = 0.0 if spelling is None else torch.tensor(words.vectors[words.row[spelling]])
            table[number] = row
    if not known:
        raise DataError(
            f"no word of the vocabulary of {shards.folder} has a vector in {run.word_vectors}: "
            "expected a vocabulary of words (bertwright tokenizer train --algorithm word)"
        )


TRANSLATION = System(instances=pairs, initialize=initialize)
SEQ2SEQ = System(instances=pairs, initialize=initialize_seq2seq)
