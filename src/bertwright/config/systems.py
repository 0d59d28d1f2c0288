"""The catalogue of systems: one entry each, the class of its runs.

That class holds all that the command line must know without torch (sizes, keys), and names by
dotted strings, imported when first needed, how models are stored (`format`, a `Format` of
`checkpoint/`) and what pre-training does (`system`, a `System` of `recipes/`).
"""

from __future__ import annotations

from difflib import get_close_matches

from bertwright.config.run import RunConfig
from bertwright.config.runs.bert import BertRun
from bertwright.config.runs.gpt import Gpt2Run, GptRun, LeftToRightBertRun
from bertwright.config.runs.language_models import AwdLstmRun, ElmoRun, NgramRun, NnlmRun
from bertwright.config.runs.memory_network import MemoryNetworkRun
from bertwright.config.runs.translation import Bert2RndRun, Seq2SeqRun, TransformerRun
from bertwright.config.runs.word_vectors import FastTextRun, GloveRun, Word2VecRun
from bertwright.errors import ConfigError

SYSTEMS: dict[str, type[RunConfig]] = {
    "bert": BertRun,
    "bert-ltr": LeftToRightBertRun,
    "transformer": TransformerRun,
    "bert2rnd": Bert2RndRun,
    "seq2seq": Seq2SeqRun,
    "awd-lstm": AwdLstmRun,
    "elmo": ElmoRun,
    "openai-gpt": GptRun,
    "gpt2": Gpt2Run,
    "memory-network": MemoryNetworkRun,
    "ngram": NgramRun,
    "nnlm": NnlmRun,
    "word2vec": Word2VecRun,
    "fasttext": FastTextRun,
    "glove": GloveRun,
}
"""System, as `model_type` of a checkpoint's config.json names it -> the class of its runs.
The first is what a run trains where nothing is said."""


def system_of_model(model: str | None) -> str:
    """The system that a `model` belongs to; of None, the first.

    Raises:
        ConfigError: no system has a model of this name.
    """
    if model is None:
        return next(iter(SYSTEMS))
    for system, run in SYSTEMS.items():
        if model in run.presets:
            return system
    known = [name for run in SYSTEMS.values() for name in run.presets]
    near = [name for name in known if name.startswith(f"{model}-")]  # the sizes of a system
    near = near or get_close_matches(model, known, n=1)
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    raise ConfigError(f"no model {model!r}; expected {', '.join(known)}{meant}")
