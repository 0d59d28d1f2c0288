"""Static word vectors: each word has one vector, whatever its sentence.

word2vec and GloVe are the same model and differ only in their training. A fastText vector is a mean
over the character n-grams of a word, so that it exists for any word.

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
from bertwright.models.word_vectors.config import FastTextConfig, WordVectorsConfig
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
        averages_unknown=config.averages_unknown,
        default_normalize=config.normalize,
    )


class WordVectors(Encoder):
    """A table of vectors, without layers above it."""

    def __init__(self, config: WordVectorsConfig) -> None:
        super().__init__(word_vectors_spec(config))
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.hidden_size)

    def compute(self, inputs: Inputs, top: int | None) -> list[Tensor]:
        """Return the vectors of tokens: ids `[N]` -> `[N, H]`; see `Encoder.compute`."""
        return [self.table(inputs.ids)]

    def stages(self) -> Sequence[nn.Module]:
        return [self.table]

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw vectors uniformly within +-1/H, as fastText and gensim do; word2vec.c and GloVe use
        half of this range.
        """
        most = 1 / self.spec.width
        nn.init.uniform_(self.table.weight, -most, most, generator=generator)


class FastText(WordVectors):
    """A table of word vectors, and the rows of words and n-grams from which it is computed
    (`models/word_vectors/subwords.py`)."""

    config: FastTextConfig
    rows: Tensor
    """`[V + buckets, H]`: the rows of words and of n-grams."""
    counts: Tensor
    """`[V]`: the number of occurrences of each word in the text."""
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
        return self.config.max_n > 0 and len(word) + 2 >= self.config.min_n

    def _of_ngrams(self, word: str) -> Tensor:
        """Return the mean `[H]` of the rows of a word's n-grams."""
        config = self.config
        buckets = buckets_of(word, config.buckets, config.min_n, config.max_n)
        return self.rows[[config.vocab_size + bucket for bucket in buckets]].mean(0)

    def set_table(self, starts: Int64s, units: Int64s) -> None:
        """Set each word's vector to the mean of its rows; `starts` and `units` are the result of
        `word_units`."""
        self.table.weight.data = mean_rows(self.rows, starts, units)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the table and the rows uniformly within +-1/H."""
        super().reset_parameters(generator)
        self.rows.uniform_(-1 / self.spec.width, 1 / self.spec.width, generator=generator)


def mean_rows(rows: Tensor, starts: Int64s, units: Int64s) -> Tensor:
    """Return the mean of the rows of each word, `[V, H]`.

    `starts` and `units`, the result of `word_units`, select them from `rows` `[R, H]`.
    """
    at = torch.from_numpy(units), rows, torch.from_numpy(starts[:-1])
    return embedding_bag(*at, mode="mean")
