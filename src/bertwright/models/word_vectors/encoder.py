"""Static word vectors: each word has one vector, whatever its sentence.

word2vec and GloVe differ in their training, not in what they are. A fastText vector is a mean over
the character n-grams of a word, so it exists for any word.

Mikolov, Chen, Corrado, Dean 2013, "Efficient Estimation of Word Representations in Vector Space";
Pennington, Socher, Manning 2014, "GloVe: Global Vectors for Word Representation"; Bojanowski,
Grave, Joulin, Mikolov 2017, "Enriching Word Vectors with Subword Information".

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
    StaticConfig,
    Word2VecConfig,
    WordVectorsConfig,
)
from bertwright.models.word_vectors.subwords import buckets_of
from bertwright.nn.encoder import Encoder, EncoderSpec, FurtherWords
from bertwright.nn.sequences import Inputs


def word_vectors_spec(config: WordVectorsConfig) -> EncoderSpec:
    """Return the specification of a table with this configuration."""
    return EncoderSpec(
        width=config.hidden_size,
        depth=0,
        vocab_size=config.vocab_size,
        # a vector depends only on its own token, so it depends on no token that follows
        causal=True,
        default_layer=0,
        # the tokens that begin and end a text have no trained vector
        averages_begin=False,
        averages_end=False,
        feature_based=True,
        averages_unknown=not isinstance(config, (Word2VecConfig, GloveConfig, StaticConfig)),
        default_normalize=isinstance(config, StaticConfig) and config.normalize,
    )


class WordVectors(Encoder):
    """A table of vectors, without layers above it."""

    def __init__(self, config: WordVectorsConfig) -> None:
        super().__init__(word_vectors_spec(config))
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """Read token ids `[N]` -> `[N, H]`; see `Encoder`."""
        return [self.table(inputs.ids)]

    def stages(self) -> Sequence[nn.Module]:
        return [self.table]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw vectors uniformly within +-1/H, as fastText and gensim do; word2vec.c and GloVe use
        half of it.
        """
        most = 1 / self.spec.width
        nn.init.uniform_(self.table.weight, -most, most, generator=generator)


class FastText(WordVectors):
    """The same table, and the rows that it is computed from (`models/word_vectors/subwords.py`)."""

    config: FastTextConfig
    rows: Tensor
    """`[V + buckets, H]`: the rows of words and of n-grams."""
    counts: Tensor
    """`[V]`: how often each word was in the text."""
    further_words: FurtherWords | None = None
    """The words outside the vocabulary, whose ids are V and above."""

    def __init__(self, config: FastTextConfig) -> None:
        super().__init__(config)
        words, width = config.vocab_size, config.hidden_size
        self.register_buffer("rows", torch.zeros(words + config.buckets, width))
        self.register_buffer("counts", torch.zeros(words, dtype=torch.int64))

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        words, size = self.further_words, self.spec.vocab_size
        if not words:
            return super().compute(inputs, top)
        x = self.table(inputs.ids.clamp(max=size - 1))  # [N, H]
        at = (inputs.ids >= size).nonzero()[:, 0]
        if len(at):
            ids = inputs.ids[at].tolist()
            vectors = {id: self._of_ngrams(words.word_of(id)) for id in set(ids)}
            rows = torch.stack([vectors[id] for id in ids])
            x = x.index_put((at,), rows.to(x.dtype))
        return [x]

    def can_spell(self, word: str) -> bool:
        """Return whether a word has n-grams; its ends, `<` and `>`, count as characters."""
        return len(word) + 2 >= self.config.min_n

    def _of_ngrams(self, word: str) -> Tensor:
        """Return the mean `[H]` of the rows of a word's n-grams."""
        config = self.config
        buckets = buckets_of(word, config.buckets, config.min_n, config.max_n)
        return self.rows[[config.vocab_size + bucket for bucket in buckets]].mean(0)

    def set_table(self, starts: Int64s, units: Int64s) -> None:
        """Set each word's vector to the mean of its rows, which `word_units` returns."""
        self.table.weight.data = mean_rows(self.rows, starts, units)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the rows as the vectors of words are drawn."""
        super().reset_parameters(generator)
        self.rows.uniform_(-1 / self.spec.width, 1 / self.spec.width, generator=generator)


def mean_rows(rows: Tensor, starts: Int64s, units: Int64s) -> Tensor:
    """Return the mean `[V, H]` of the rows of each word; `starts` and `units`, from `word_units`,
    select them from `rows` `[R, H]`.
    """
    at = torch.from_numpy(units), rows, torch.from_numpy(starts[:-1])
    return embedding_bag(*at, mode="mean")
