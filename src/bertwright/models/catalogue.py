"""The catalogue of systems: a row for each, with what is known of it without its modules.

It needs only the standard library, so the command line reads names, sizes and keys from it without
waiting for torch. `models/load.py` imports the record of a system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from bertwright.config.run import RunConfig
from bertwright.errors import ConfigError
from bertwright.models.albert.config import AlbertConfig, AlbertRun
from bertwright.models.awd_lstm.config import AwdLstmConfig, AwdLstmRun
from bertwright.models.bert.config import (
    BertConfig,
    BertRun,
    LeftToRightBertConfig,
    LeftToRightBertRun,
)
from bertwright.models.bert2rnd.config import Bert2RndConfig, Bert2RndRun
from bertwright.models.distilbert.config import DistilBertConfig
from bertwright.models.electra.config import ElectraConfig, ElectraRun
from bertwright.models.elmo.config import ElmoConfig, ElmoRun
from bertwright.models.gpt.config import Gpt2Config, Gpt2Run, GptConfig, GptRun
from bertwright.models.memory_network.config import MemoryNetworkConfig, MemoryNetworkRun
from bertwright.models.modernbert.config import ModernBertConfig, ModernBertRun
from bertwright.models.mpnet.config import MpnetConfig
from bertwright.models.ngram.config import NgramConfig, NgramRun
from bertwright.models.nnlm.config import NnlmConfig, NnlmRun
from bertwright.models.roberta.config import (
    CamembertConfig,
    RobertaConfig,
    RobertaRun,
    XlmRobertaConfig,
)
from bertwright.models.seq2seq.config import Seq2SeqConfig, Seq2SeqRun
from bertwright.models.transformer.config import TransformerConfig, TransformerRun
from bertwright.models.word_vectors.config import (
    FastTextConfig,
    FastTextRun,
    GloveConfig,
    GloveRun,
    StaticConfig,
    Word2VecConfig,
    Word2VecRun,
    WordVectorsConfig,
)


@dataclass(frozen=True)
class Row:
    """One system of the catalogue."""

    name: str
    """The name: `--systems`, and Python's `system`."""
    config: type[Any]
    """The class of its models' configurations, a frozen dataclass."""
    run: type[RunConfig] | None = None
    """The class of its runs; None: its models are read from files and never trained."""
    use: str = "inspect {run}"
    """The verb that shows what a trained model can do, which is printed at the end of a run."""
    reads: Literal["text", "pairs", "stories"] = "text"
    """What its shards hold: text; pairs of sentences (`data build --parallel`); stories with
    questions. A pair or a story is one example, of which no part is held out by itself.
    """
    encoders: tuple[str, ...] = ()
    """The systems whose models `--encoder` may name."""
    model_type: str = ""
    """The `model_type` in the `config.json` of its checkpoints; empty: the name."""
    instead: str = ""
    """For a system without runs, the name of the one to train in its place."""

    @property
    def presets(self) -> Mapping[str, Any]:
        """The presets that `--model` may name, which set the size of a new model."""
        return {} if self.run is None else self.run.presets

    @property
    def default(self) -> str:
        """The preset of a run that names neither a preset nor a checkpoint to start from."""
        return "" if self.run is None else self.run.default_model


EMBED = "embed --model {run} --input texts.txt --out vectors.npy"
FILL = 'fill --model {run} "A text with a [MASK]."'
GENERATE = 'generate --model {run} "A text"'
NEAREST = "words nearest --model {run} WORD"
TRANSLATE = 'translate --model {run} "A sentence."'

_ROWS = (
    Row("bert", BertConfig, BertRun, use=FILL),
    Row("bert-ltr", LeftToRightBertConfig, LeftToRightBertRun, use=GENERATE),
    Row("roberta", RobertaConfig, RobertaRun, use=FILL),
    Row("xlm-roberta", XlmRobertaConfig, instead="roberta"),
    Row("camembert", CamembertConfig, instead="roberta"),
    Row("distilbert", DistilBertConfig, instead="bert"),
    Row("electra", ElectraConfig, ElectraRun, use=EMBED),
    Row("albert", AlbertConfig, AlbertRun, use=FILL),
    Row("mpnet", MpnetConfig, instead="bert"),
    Row("modernbert", ModernBertConfig, ModernBertRun, use=FILL),
    Row("transformer", TransformerConfig, TransformerRun, use=TRANSLATE, reads="pairs"),
    Row(
        "bert2rnd",
        Bert2RndConfig,
        Bert2RndRun,
        use=TRANSLATE,
        reads="pairs",
        encoders=("bert",),
    ),
    Row("seq2seq", Seq2SeqConfig, Seq2SeqRun, use=TRANSLATE, reads="pairs"),
    Row("awd-lstm", AwdLstmConfig, AwdLstmRun, use=GENERATE),
    Row("elmo", ElmoConfig, ElmoRun, use="senses --model {run}"),
    Row("gpt", GptConfig, GptRun, use=GENERATE, model_type="openai-gpt"),
    Row("gpt2", Gpt2Config, Gpt2Run, use=GENERATE),
    Row(
        "memory-network",
        MemoryNetworkConfig,
        MemoryNetworkRun,
        use="answer --model {run} stories.txt",
        reads="stories",
    ),
    Row("ngram", NgramConfig, NgramRun, use=GENERATE),
    Row("nnlm", NnlmConfig, NnlmRun, use=GENERATE),
    Row("word2vec", Word2VecConfig, Word2VecRun, use=NEAREST),
    Row("fasttext", FastTextConfig, FastTextRun, use=NEAREST),
    Row("glove", GloveConfig, GloveRun, use=NEAREST),
    Row("word-vectors", WordVectorsConfig, instead="word2vec"),
    Row("model2vec", StaticConfig, instead="word2vec"),
)
MODELS = {row.name: row for row in _ROWS}
"""The systems by name. A run trains the first unless it names another."""


def system_name(model_type: str) -> str:
    """Return the name of the system whose `config.json` has a `model_type`."""
    named = {row.model_type: row.name for row in MODELS.values() if row.model_type}
    return named.get(model_type, model_type)


def trainable() -> dict[str, type[RunConfig]]:
    """Return the systems that can be trained, with the classes of their runs."""
    return {name: row.run for name, row in MODELS.items() if row.run is not None}


def row_of(run: RunConfig | type[RunConfig]) -> Row:
    """Return the row of the system of a run, or of a class of runs."""
    wanted = run if isinstance(run, type) else type(run)
    for row in MODELS.values():
        if row.run is wanted:
            return row
    known = ", ".join(each.__name__ for each in trainable().values())
    raise ConfigError(f"no system has runs of the class {wanted.__name__}; there are {known}")


def not_trained(system: str) -> ConfigError:
    """Return the error for a run of a system whose models are only read."""
    trained = MODELS[MODELS[system].instead]
    return ConfigError(
        f"bertwright pretrain does not train {system}: train {trained.name} in its place (--model "
        f"{trained.default}). A model of {system} that exists is read by the other verbs, such as "
        "embed, finetune, serve and export: give them --model FOLDER or hf:ORG/NAME"
    )


def system_of_model(model: str | None) -> str:
    """Return the name of the system that a preset (`--model`) belongs to; for None, the first."""
    if model is None:
        return next(iter(MODELS))
    for system, row in MODELS.items():
        if model in row.presets:
            return system
    for system, row in MODELS.items():
        if row.run is None and f"{model}-".startswith(f"{system}-"):
            raise not_trained(system)
    known = [name for row in MODELS.values() for name in row.presets]
    near = [name for name in known if name.startswith(f"{model}-")]  # the presets of that system
    near = near or get_close_matches(model, known, n=1)
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    raise ConfigError(f"no model {model!r}; expected {', '.join(known)}{meant}")


def system_and_preset(system: str | None, size: str | None) -> tuple[str, str | None]:
    """Return the names of a system and of its preset that Python's arguments mean.

    `size` is a preset (`bert-mini-ltr`), or what the name of one adds to that of its system
    (`mini`). Without a system it is a preset of any, or a size of the first system.
    """
    runs = trainable()
    if system in MODELS and system not in runs:
        raise not_trained(system)
    if system is not None and system not in runs:
        near = get_close_matches(system, runs, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(f"no system {system!r}; expected {', '.join(runs)}{meant}")
    if size is None:
        return system or system_of_model(None), None
    first = system or system_of_model(None)
    for name in MODELS[first].presets:
        if name == size or sorted(name.split("-")) == sorted(f"{first}-{size}".split("-")):
            return first, name
    if system is None:
        return system_of_model(size), size
    raise ConfigError(
        f"{system} has no preset {size!r}; expected {', '.join(MODELS[system].presets)}"
    )
