"""Static word vectors: one vector a word, whatever its sentence. word2vec and GloVe differ in how
they are trained, not in what they are; fastText's are means over the character n-grams of a word,
and so exist for any word.

Mikolov, Chen, Corrado, Dean 2013, "Efficient Estimation of Word Representations in Vector Space";
Pennington, Socher, Manning 2014, "GloVe: Global Vectors for Word Representation";
Bojanowski, Grave, Joulin, Mikolov 2017, "Enriching Word Vectors with Subword Information".

    x_i = E[w_i]

Letters: N words, H width of a vector, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from bertwright.arrays import Int64s
from bertwright.models.word_vectors.config import (
    FastTextConfig,
    GloveConfig,
    Word2VecConfig,
    WordVectorsConfig,
)
from bertwright.nn.encoder import Encoder, EncoderSpec
from bertwright.nn.sequences import Inputs


def word_vectors_spec(config: WordVectorsConfig) -> EncoderSpec:
    """Return the specification of a table with this configuration."""
    return EncoderSpec(
        width=config.hidden_size,
        depth=0,
        vocab_size=config.vocab_size,
        # a vector depends on its own token alone, so it depends on no token that follows
        causal=True,
        default_layer=0,
        # nor was a vector trained of the tokens that begin and end a text
        averages_begin=False,
        averages_end=False,
        feature_based=True,
        averages_unknown=not isinstance(config, (Word2VecConfig, GloveConfig)),
    )


class WordVectors(Encoder):
    """A table of vectors; it has no layers above it."""

    def __init__(self, config: WordVectorsConfig) -> None:
        super().__init__(word_vectors_spec(config))
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """ids `[N]` -> `[N, H]`; see `Encoder`."""
        return [self.table(inputs.ids)]

    def stages(self) -> Sequence[nn.Module]:
        """See `Encoder`."""
        return [self.table]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Uniform in +-1/H, as fastText and gensim do; word2vec.c and GloVe have half of it."""
        most = 1 / self.spec.width
        nn.init.uniform_(self.table.weight, -most, most, generator=generator)


class FastText(WordVectors):
    """The same table, and the rows that it was made of (`models/word_vectors/subwords.py`)."""

    config: FastTextConfig
    rows: Tensor
    """`[V + buckets, H]` of words and of n-grams."""
    counts: Tensor
    """`[V]` how often each word was in the text."""

    def __init__(self, config: FastTextConfig) -> None:
        super().__init__(config)
        words, width = config.vocab_size, config.hidden_size
        self.register_buffer("rows", torch.zeros(words + config.buckets, width))
        self.register_buffer("counts", torch.zeros(words, dtype=torch.int64))

    def set_table(self, starts: Int64s, units: Int64s) -> None:
        """Make each word's vector the mean of its rows, as `word_units` gives them."""
        self.table.weight.data = mean_rows(self.rows, starts, units)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """As those of words."""
        super().reset_parameters(generator)
        self.rows.uniform_(-1 / self.spec.width, 1 / self.spec.width, generator=generator)


def mean_rows(rows: Tensor, starts: Int64s, units: Int64s) -> Tensor:
    """The mean of the rows of each word `[V, H]`, of `rows` `[R, H]` as `word_units` gives them."""
    at = torch.from_numpy(units), rows, torch.from_numpy(starts[:-1])
    return embedding_bag(*at, mode="mean")
