"""Translation models as systems: pairs of sentences in, the target out.

The encoder of one may start as a pre-trained BERT (Rothe, Narayan and Severyn 2020: BERT2RND). The
decoder is the Transformer's with random weights then; it reads by BERT's embeddings (tokens,
positions, segment A, their norm) and predicts by its token vectors: "encoder and decoder share the
embedding matrix" (section 3 of the paper). Tokens that the data has and BERT has not, as those of
trees, get random vectors, as long as BERT's are.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import cast

import torch

from bertwright.atomic import refuse_source
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.formats import only_bert
from bertwright.checkpoint.sources import read_config, read_tokenizer
from bertwright.config.runs.translation import (
    Bert2RndConfig,
    Bert2RndRun,
    Seq2SeqRun,
    TranslationRun,
)
from bertwright.data.parallel.pairs import ParallelText
from bertwright.data.shards import Shards
from bertwright.data.split import Split, split_documents
from bertwright.errors import ConfigError, DataError
from bertwright.inference.word_vectors.table import open_words
from bertwright.models.seq2seq import Seq2Seq
from bertwright.objectives.objective import Learner
from bertwright.objectives.translation import Translation
from bertwright.recipes.systems import System, keep_architecture
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer


def pairs(run: TranslationRun, shards: Shards, split: Split, seed: int) -> ParallelText:
    """The pairs of a split as the run reads them."""
    documents = split_documents(shards, split, run.validation.share)
    return ParallelText(shards, documents, run.sequence_length, seed=seed)


def initialize(learner: Learner, run: TranslationRun, shards: Shards) -> None:
    """The encoder, then the decoder, as published."""
    generator = torch.Generator().manual_seed(run.seed)
    learner.encoder.reset_parameters(generator)
    cast(Translation, learner.objectives["translation"]).reset_parameters(generator)


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


TRANSLATION = System(instances=pairs, initialize=initialize)
SEQ2SEQ = System(instances=pairs, initialize=initialize_seq2seq)


def model(run: Bert2RndRun, shards: Shards) -> Bert2RndConfig:
    """The architecture: that of the BERT, where there is one, and the decoder's.

    Raises:
        ConfigError: it is no BERT, another one than the run asks for, or has too few positions; or
            the run would replace it.
    """
    config: Bert2RndConfig = run.model_config(shards.vocab_size)
    if run.encoder is not None:
        refuse_source(Path(run.out), run.encoder)
        folder = checkpoint.find_checkpoint(run.encoder)
        bert = asdict(only_bert(read_config(folder), "--encoder"))
        own = {"num_decoder_layers", "label_smoothing"}
        bert |= {name: getattr(config, name) for name in own} | {"vocab_size": shards.vocab_size}
        config = keep_architecture(run, Bert2RndConfig(**bert), folder)
    if run.sequence_length > config.max_position_embeddings:
        raise ConfigError(
            f"sequence_length is {run.sequence_length}; expected at most the "
            f"{config.max_position_embeddings} positions of {run.encoder or 'the model'}"
        )
    return config


def initialize_encoder(learner: Learner, run: Bert2RndRun, shards: Shards) -> None:
    """All weights at random, then the encoder's from the BERT, where there is one.

    Raises:
        DataError: the data has another vocabulary.
    """
    initialize(learner, run, shards)
    if run.encoder is None:
        return
    loaded = checkpoint.load(run.encoder, [])
    tokenizer = read_tokenizer(loaded.folder, loaded.config)
    _require_vocabulary(shards, tokenizer, run.encoder)
    weights = loaded.learner.encoder.state_dict()
    known = weights["embeddings.token.weight"][: tokenizer.vocab_size]
    generator = torch.Generator().manual_seed(run.seed)
    more = torch.empty(shards.vocab_size - len(known), known.shape[1])
    more.normal_(0, float(known.std()), generator=generator)
    weights["embeddings.token.weight"] = torch.cat([known, more])
    learner.encoder.load_state_dict(weights)


def _require_vocabulary(shards: Shards, bert: Tokenizer, owner: str) -> None:
    """Raise DataError unless that of the data is the BERT's, or that with more at its end."""
    if bert.fingerprint == shards.tokenizer_fingerprint:
        return
    ours, size = load_tokenizer(shards.tokenizer_folder), bert.vocab_size
    more = ours.tokens_of(range(size, ours.vocab_size))
    begins = ours.tokens_of(range(size)) == bert.tokens_of(range(size))
    if not (begins and more and bert.extended(more).fingerprint == ours.fingerprint):
        raise DataError(
            f"the {ours.vocab_size} tokens of {shards.folder} do not begin with the {size} of "
            f"{owner}, split by the same rules: build the data again with --tokenizer {owner}"
        )


BERT2RND = System(instances=pairs, model=model, initialize=initialize_encoder)
