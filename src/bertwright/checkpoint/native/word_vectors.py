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
from bertwright.objectives.word_vectors import ContextWords, Cooccurrences

_CONTEXT = {"context_words": lambda config, _: ContextWords(config)}
WORD2VEC = Format("word2vec", Word2VecConfig, WordVectors, _CONTEXT)
FASTTEXT = Format("fasttext", FastTextConfig, FastText, _CONTEXT)
GLOVE = Format("glove", GloveConfig, WordVectors, {"cooccurrences": lambda c, _: Cooccurrences(c)})
FROM_FILES = Format("word-vectors", WordVectorsConfig, WordVectors, {})
"""Vectors that `bertwright convert` read from a file of another program."""
MEMORY_NETWORK = Format(
    "memory-network", MemoryNetworkConfig, WordVectors, {"answer": lambda c, _: Answer(c)}
)
