"""What first weights know: three cheap facts that a masked LM else spends its first minutes on.

Where a masked token's neighbours are (`nn/init.py`), which tokens are alike
(`data/token_vectors.py`), and how frequent each is. Embeddings start larger than published: Adam
moves a number by about the learning rate a step, so at 0.02 some dozen steps can erase what the
positions and vectors told. The architecture stays BERT's; only the values it starts from differ.
What each is worth is measured in `experiments/small_budget`.
"""

from __future__ import annotations

import numpy as np
import torch

from bertwright.config.bert_run import BertRun
from bertwright.data.shards import Shards
from bertwright.data.split import split_documents
from bertwright.data.token_vectors import make_token_vectors, sample_tokens
from bertwright.models.bert import Bert
from bertwright.nn.init import aim_heads, initialize, place_vectors
from bertwright.objectives.masked_lm import MaskedLM
from bertwright.objectives.objective import Learner

COUNTED_TOKENS = 4_000_000
"""Tokens of training documents to count in: some seconds' work."""


def start(learner: Learner, config: BertRun, shards: Shards, seed: int) -> None:
    """Give weights their first values, in place; nothing is counted in held-out documents."""
    encoder, masked_lm = learner.encoder, learner.objectives["masked_lm"]
    assert isinstance(encoder, Bert)
    assert isinstance(masked_lm, MaskedLM)
    bert = encoder.config
    chance = torch.Generator().manual_seed(seed)
    initialize(learner, bert.initializer_range, chance)
    embeddings, std = encoder.embeddings, config.start.embedding_std
    initialize(embeddings, std, chance)
    if config.start.aimed_heads:
        qkv = encoder.layer(0).attention.qkv.weight
        aim_heads(embeddings.position.weight, qkv, bert.num_attention_heads, std)
    if not (config.start.counted_vectors or config.start.frequency_bias):
        return
    documents = split_documents(shards, "train", config.validation.share)
    tokens = sample_tokens(shards, documents, COUNTED_TOKENS, seed)
    if config.start.counted_vectors:
        vectors = make_token_vectors(tokens, bert.vocab_size, bert.hidden_size, seed)
        place_vectors(embeddings.token.weight, torch.from_numpy(vectors), std, chance)
    if config.start.frequency_bias:
        counts = np.bincount(tokens, minlength=bert.vocab_size) + 1.0
        logarithms = np.log(counts / counts.sum())
        with torch.no_grad():
            masked_lm.bias.copy_(torch.from_numpy(logarithms - logarithms.mean()))
