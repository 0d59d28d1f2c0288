"""A translation model whose encoder starts as a pre-trained BERT (Rothe, Narayan and Severyn 2020:
BERT2RND).

The decoder is the Transformer's with random weights; it reads by BERT's embeddings (tokens,
positions, segment A, their norm) and predicts by its token vectors: "encoder and decoder share the
embedding matrix" (section 3 of the paper). Tokens that the data has and BERT has not, as those of
trees, get random vectors, as long as BERT's are.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from bertwright.atomic import refuse_source
from bertwright.checkpoint import checkpoint
from bertwright.checkpoint.formats import only_bert
from bertwright.checkpoint.sources import read_config, read_tokenizer
from bertwright.config.runs.translation import Bert2RndConfig, Bert2RndRun
from bertwright.data.shards import Shards
from bertwright.errors import ConfigError, DataError
from bertwright.objectives.objective import Learner
from bertwright.recipes.systems import System, keep_architecture
from bertwright.recipes.translation.system import initialize, pairs
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer


def model(run: Bert2RndRun, shards: Shards) -> Bert2RndConfig:
    """The architecture: that of the BERT, where there is one, and the decoder's.

    Raises:
        ConfigError: it is no BERT, has another architecture than the run asks for, or too few
            positions; or the run would replace it.
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
    bert = loaded.learner.encoder
    table = bert.token_embedding()
    assert table is not None
    known = table.weight.data[: tokenizer.vocab_size]
    generator = torch.Generator().manual_seed(run.seed)
    more = torch.empty(shards.vocab_size - len(known), known.shape[1])
    more.normal_(0, float(known.std()), generator=generator)
    table.weight = torch.nn.Parameter(torch.cat([known, more]))
    learner.encoder.load_state_dict(bert.state_dict())


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
