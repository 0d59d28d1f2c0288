"""Tables of word vectors, and what is trained above them."""

from __future__ import annotations

from bertwright.checkpoint.format import Format
from bertwright.config.runs.memory_network import MemoryNetworkConfig
from bertwright.config.runs.word_vectors import (
    FastTextConfig,
    GloveConfig,
    Word2VecConfig,
    WordVectorsConfig,
)
from bertwright.models.word_vectors import FastText, WordVectors
from bertwright.objectives.answer import Answer
from bertwright.objectives.context_words import context_words
from bertwright.objectives.cooccurrences import cooccurrences

WORD2VEC = Format("word2vec", Word2VecConfig, WordVectors, {"context_words": context_words})
FASTTEXT = Format("fasttext", FastTextConfig, FastText, {"context_words": context_words})
GLOVE = Format("glove", GloveConfig, WordVectors, {"cooccurrences": cooccurrences})
FROM_FILES = Format("word-vectors", WordVectorsConfig, WordVectors, {})
"""Vectors that `bertwright convert` read from a file of another program."""
MEMORY_NETWORK = Format(
    "memory-network", MemoryNetworkConfig, WordVectors, {"answer": lambda c, _: Answer(c)}
)
