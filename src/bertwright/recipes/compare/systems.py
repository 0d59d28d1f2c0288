"""The systems that can be compared: what each adds, how it is trained here, how tasks use it.

The order is that of docs/explanation/road.md. Each system has its smallest size (2 to 8 million
parameters, and fastText's character n-grams), because a few minutes on two cores are too short to
train larger ones. Learning rates are those of the systems' pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bertwright.config import values
from bertwright.config.recipes import recipe_file
from bertwright.models.catalogue import MODELS

Data = Literal["wordpieces", "words", "wordpiece-pairs", "word-pairs"]
"""The data of a system: text or translations, in one of the two vocabularies."""

_LANGUAGE_MODEL: dict[str, Any] = {"sequence_length": 128}
_POSITIONS = {"max_position_embeddings": 128}
_SET_BY_THE_COMPARISON = ("model", "minutes", "validation")
_HALF_HOUR = {
    key: value
    for key, value in values.read_toml(recipe_file("half-hour")).items()
    if key not in _SET_BY_THE_COMPARISON
}
"""How BERT is trained: as by the recipe for small budgets."""


@dataclass(frozen=True)
class Entry:
    """A system that can be compared."""

    name: str
    """The name in `--systems` and in files."""
    title: str
    """The name in texts for users."""
    system: str
    """The name of the system in the catalogue."""
    model: str
    """The name of the preset that sets the size of the model."""
    data: Data
    """The data that it is trained on."""
    adds: str
    """A few sentences that say what it adds to the system before."""
    page: str
    """The path of its page in docs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the configuration of its run."""
    passes: int = 0
    """The maximum number of passes of a system that is trained in passes over the text."""
    scores: Literal["", "text", "masked"] = ""
    """`text`: it computes the probability of a text; `masked`: it computes that of each token given
    all other tokens; empty: neither.
    """
    vectors: bool = True
    """Whether it has vectors that a task can read."""
    writes: bool = False
    """Whether `finetune generation` trains it to write a text after another text."""
    layers: Literal["last", "embeddings+last"] | None = None
    """The layers that are its frozen features; None: the layer that `embed` reads."""
    network: Literal["linear", "taglm"] = "linear"
    """The network that is trained on its frozen features."""
    needs: str = ""
    """The name of another system whose run it reads; empty: none."""
    is_that_of: str = ""
    """The name of another system whose run it uses in another way; empty: it has its own run."""
    of_words: bool = False
    """Whether it is only for tasks in which each word has a label."""
    tuned: bool = True
    """Whether it is also fine-tuned."""

    @property
    def reads_pairs(self) -> bool:
        """Whether it is trained on translations."""
        return self.data.endswith("pairs")


_ALL = (
    Entry(
        "ngram",
        "n-gram",
        "ngram",
        "ngram",
        "wordpieces",
        "It counts how often a token comes after the four before it, and backs off to shorter "
        "contexts that it has seen. A word is a symbol that is like no other: it has no vectors.",
        "ngram.md",
        scores="text",
        vectors=False,
    ),
    Entry(
        "nnlm",
        "NNLM",
        "nnlm",
        "nnlm-base",
        "wordpieces",
        "It gives each word a vector and predicts the next one from those of the last four, so "
        "that words that are used alike get vectors that are alike.",
        "nnlm.md",
        {**_LANGUAGE_MODEL, "optimizer": {"learning_rate": 4e-2}},
        scores="text",
    ),
    Entry(
        "word2vec",
        "word2vec",
        "word2vec",
        "word2vec-skip-gram",
        "words",
        "It keeps the vectors and drops the network: a word predicts its neighbours by a dot "
        "product. A word has one vector in all sentences.",
        "word2vec.md",
        {"architecture": {"hidden_size": 128}},
        passes=40,
    ),
    Entry(
        "glove",
        "GloVe",
        "glove",
        "glove",
        "words",
        "It fits the logarithms of how often two words occur near each other by the same dot "
        "products, counted once over the whole text.",
        "glove.md",
        {"architecture": {"hidden_size": 128}},
        passes=60,
    ),
    Entry(
        "fasttext",
        "fastText",
        "fasttext",
        "fasttext-skip-gram",
        "words",
        "It makes a word's vector of its character n-grams, so that a word that was never seen "
        "has one too.",
        "fasttext.md",
        {"architecture": {"hidden_size": 128, "buckets": 200_000}},
        passes=20,
    ),
    Entry(
        "seq2seq",
        "seq2seq",
        "seq2seq",
        "seq2seq-small",
        "wordpiece-pairs",
        "It translates: a decoder looks back at the encoder's vectors, weighted by how well each "
        "fits (attention). It is trained on translations in place of the text.",
        "seq2seq.md",
        {"batch": {"tokens": 2048}, "optimizer": {"learning_rate": 2e-3}},
    ),
    Entry(
        "cove",
        "CoVe",
        "seq2seq",
        "seq2seq-cove",
        "word-pairs",
        "The encoder of a translation model gives a word a vector that depends on its sentence, "
        "beside the word's own of word2vec. It is trained on translations in place of the text.",
        "cove.md",
        {
            "batch": {"tokens": 2048},
            "optimizer": {"learning_rate": 2e-3},
            "schedule": {"curve": "linear"},
            "architecture": {"embedding_size": 128, "hidden_size": 200},
        },
        layers="embeddings+last",
        needs="word2vec",
    ),
    Entry(
        "elmo",
        "ELMo",
        "elmo",
        "elmo-mini",
        "words",
        "Two language models, one from the left and one from the right, give a word a vector in "
        "its sentence without translations; a task reads more than one of their layers.",
        "elmo.md",
        {
            "sequence_length": 64,
            "architecture": {"output_size": 8192},
        },
        layers="embeddings+last",
    ),
    Entry(
        "taglm",
        "TagLM",
        "elmo",
        "elmo-mini",
        "words",
        "A tagger of two bidirectional LSTMs, over words and their spelling, reads the frozen "
        "states of the language models in between. The language models are ELMo's.",
        "taglm.md",
        layers="last",
        network="taglm",
        is_that_of="elmo",
        of_words=True,
        tuned=False,
    ),
    Entry(
        "awd-lstm",
        "AWD-LSTM",
        "awd-lstm",
        "awd-lstm-small",
        "wordpieces",
        "An LSTM language model that is fine-tuned whole on the task (ULMFiT), in place of frozen "
        "vectors below a network from random weights.",
        "awd-lstm.md",
        {**_LANGUAGE_MODEL, "optimizer": {"learning_rate": 1e-2}},
        scores="text",
    ),
    Entry(
        "transformer",
        "Transformer",
        "transformer",
        "transformer-small",
        "wordpiece-pairs",
        "It removes the recurrence: every token looks at every other, in several heads, and all "
        "positions are computed at once. It is trained on translations in place of the text.",
        "transformer.md",
        {"batch": {"tokens": 2048}, "optimizer": {"learning_rate": 2e-3}},
    ),
    Entry(
        "gpt",
        "GPT",
        "gpt",
        "gpt-mini",
        "wordpieces",
        "The decoder of a Transformer is trained as a language model and then fine-tuned whole: "
        "tasks differ in how their input is written down, no longer in their network.",
        "gpt.md",
        {**_LANGUAGE_MODEL, "architecture": _POSITIONS, "optimizer": {"learning_rate": 5e-3}},
        scores="text",
        writes=True,
    ),
    Entry(
        "gpt2",
        "GPT-2",
        "gpt2",
        "gpt2-mini",
        "wordpieces",
        "The same with the norms before each part, which trains more steadily. It sees what is to "
        "the left alone.",
        "gpt.md",
        {**_LANGUAGE_MODEL, "architecture": _POSITIONS, "optimizer": {"learning_rate": 5e-3}},
        scores="text",
        writes=True,
    ),
    Entry(
        "bert-ltr",
        "left-to-right BERT",
        "bert-ltr",
        "bert-mini-ltr",
        "wordpieces",
        "BERT's own network from left to right: its difference from BERT is what seeing both sides "
        "is worth.",
        "left-to-right-bert.md",
        {**_LANGUAGE_MODEL, "architecture": _POSITIONS},
        scores="text",
        writes=True,
    ),
    Entry(
        "bert",
        "BERT",
        "bert",
        "bert-mini",
        "wordpieces",
        "It hides some of the tokens and predicts those, so that every layer sees both sides of a "
        "token. It also learns which passages follow each other, by their vectors.",
        "bert.md",
        _HALF_HOUR,
        scores="masked",
        writes=True,
    ),
)
SYSTEMS: Mapping[str, Entry] = {entry.name: entry for entry in _ALL}
"""Every system by its name, in the order of the papers."""

FIVE = ("ngram", "word2vec", "awd-lstm", "gpt2", "bert")
"""The systems of the preset."""

NOT_COMPARED: Mapping[str, str] = {
    **{
        name: f"it is read and used, and not trained here: bertwright pretrain trains {row.instead}"
        for name, row in MODELS.items()
        if row.run is None
    },
    "memory-network": "it reads stories with questions, and no text: bertwright data stories",
    "bert2rnd": "it is a translation model that begins as a BERT, and no encoder of its own",
    "roberta": "it is a BERT without next sentences, so `bert` stands for it",
    "albert": "it is a BERT whose layers share their weights; train it by bertwright pretrain",
    "modernbert": "it is a newer BERT; train it by bertwright pretrain",
    "electra": "it trains two encoders at once; train it by bertwright pretrain",
}
"""The reason for each system of the catalogue that is not compared."""
SAME: Mapping[str, str] = {"n-gram": "ngram", "gpt-2": "gpt2"}
"""The name of a system for each alternative name."""
