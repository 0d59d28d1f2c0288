"""BERT2RND as a system: a Transformer whose encoder may start from a pre-trained BERT (Rothe,
Narayan and Severyn 2020).

The decoder is that of the Transformer, with random weights. It reads with BERT's embeddings
(tokens, positions, segment A and their norm) and predicts with BERT's token vectors: "encoder and
decoder share the embedding matrix" (section 3 of the paper). Tokens of the data that the BERT
lacks, such as those of trees, get random vectors with the deviation of BERT's.
"""

from __future__ import annotations

from dataclasses import asdict

import torch

from bertwright.data.shards import Shards
from bertwright.errors import DataError
from bertwright.models.bert.encoder import Bert, bert_spec
from bertwright.models.bert2rnd.config import Bert2RndConfig, Bert2RndRun
from bertwright.models.catalogue import MODELS
from bertwright.models.system import RunSources, System, keep_architecture
from bertwright.models.transformer.encoder import TransformerDecoder
from bertwright.models.translation import initialize, pairs
from bertwright.nn.encoder import Encoder
from bertwright.nn.objective import Learner
from bertwright.nn.outputs.translation import Translation
from bertwright.text.tokenizer.tokenizer import Tokenizer, load_tokenizer


def translation(config: Bert2RndConfig, encoder: Encoder) -> Translation:
    """Return a decoder that reads with BERT's embeddings and predicts with its token vectors."""
    assert isinstance(encoder, Bert)
    decoder = TransformerDecoder(config.decoder, encoder.embeddings)
    return Translation(decoder, encoder.token_embedding(), config.label_smoothing)


def model(run: Bert2RndRun, shards: Shards, sources: RunSources) -> Bert2RndConfig:
    """Return the architecture: that of the BERT, if the run names one, and the decoder's."""
    config: Bert2RndConfig = run.model_config(shards.vocab_size)
    if sources.encoder is None:
        return config
    of_decoder = {name: getattr(config, name) for name in ("num_decoder_layers", "label_smoothing")}
    bert = {**asdict(sources.encoder.config), **of_decoder, "vocab_size": shards.vocab_size}
    config = keep_architecture(run, Bert2RndConfig(**bert), sources.encoder.folder)
    return config


def initialize_bert2rnd(
    learner: Learner, run: Bert2RndRun, shards: Shards, sources: RunSources
) -> None:
    """Draw all weights at random, then copy the encoder's from the BERT, if the run names one."""
    initialize(learner, run, shards, sources)
    bert = sources.encoder
    if bert is None:
        return
    _require_vocabulary(shards, bert.tokenizer, bert.name)
    weights = dict(bert.weights)
    known = weights["embeddings.token.weight"][: bert.tokenizer.vocab_size]
    generator = torch.Generator().manual_seed(run.seed)
    more = torch.empty(shards.vocab_size - len(known), known.shape[1])
    more.normal_(0, float(known.std()), generator=generator)
    weights["embeddings.token.weight"] = torch.cat([known, more])
    learner.encoder.load_state_dict(weights)


def _require_vocabulary(shards: Shards, bert: Tokenizer, owner: str) -> None:
    """Raise DataError unless the data's vocabulary is the BERT's, or the BERT's with more tokens
    appended.
    """
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


BERT2RND = System(
    row=MODELS["bert2rnd"],
    encoder=Bert,
    spec=bert_spec,
    objectives={"translation": translation},
    instances=pairs,
    model=model,
    initialize=initialize_bert2rnd,
)
