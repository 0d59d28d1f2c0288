"""The catalogue of systems: a row for each, with what is known of it without its modules.

It needs only the standard library, so the command line reads names, sizes and keys from it without
waiting for torch. `models/load.py` imports the record of a system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from bertwright.config import values
from bertwright.config.run import RunConfig
from bertwright.errors import ConfigError
from bertwright.models.albert import config as albert
from bertwright.models.awd_lstm import config as awd_lstm
from bertwright.models.bert import config as bert
from bertwright.models.bert2rnd import config as bert2rnd
from bertwright.models.distilbert.config import DistilBertConfig
from bertwright.models.electra import config as electra
from bertwright.models.elmo import config as elmo
from bertwright.models.gpt import config as gpt
from bertwright.models.memory_network import config as memory_network
from bertwright.models.modernbert import config as modernbert
from bertwright.models.mpnet.config import MpnetConfig
from bertwright.models.ngram import config as ngram
from bertwright.models.nnlm import config as nnlm
from bertwright.models.roberta import config as roberta
from bertwright.models.seq2seq import config as seq2seq
from bertwright.models.transformer import config as transformer
from bertwright.models.word_vectors import config as word_vectors

R = TypeVar("R", bound=RunConfig)


@dataclass(frozen=True)
class Row:
    """One system of the catalogue."""

    name: str
    """The name: `--systems`, and Python's `system`."""
    config: type[Any]
    """The class of its models' configurations, a frozen dataclass."""
    run: type[RunConfig] | None = None
    """The class of its runs; None: its models are read from files and never trained."""
    presets: Mapping[str, Any] = field(default_factory=dict)
    """The configurations that `--model` may name, which set the size of a new model."""
    default: str = ""
    """The preset of a run that names neither a preset nor a checkpoint to start from."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """Values of `architecture` that a run has unless it sets them, whatever its preset or the model
    that it starts from has.
    """
    fixed: tuple[str, ...] = ("vocab_size",)
    """Keys of `architecture` that are no options. They follow from the data, from other keys or
    from the model that a run starts from, or are as published.
    """
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

    def preset(self, model: str | None) -> Any:
        """Return the architecture of a new model of a preset; for None, of the default."""
        name = self.default if model in (None, "none") else model
        if name not in self.presets:
            raise ConfigError(f"no model {name!r}; expected {', '.join(self.presets)}")
        return replace(self.presets[name], **self.settings)

    def started_from(self, given: Mapping[str, Any]) -> str | None:
        """Return the path of the model that the keys of a run name to start from, or None."""
        paths = (given.get(key) for key in ("init", *(["encoder"] if self.encoders else [])))
        return next((path for path in paths if path not in (None, "none")), None)


EMBED = "embed --model {run} --input texts.txt --out vectors.npy"
FILL = 'fill --model {run} "A text with a [MASK]."'
GENERATE = 'generate --model {run} "A text"'
NEAREST = "words nearest --model {run} WORD"
TRANSLATE = 'translate --model {run} "A sentence."'

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""The settings of runs that see their text once or twice, and do not overfit."""
PUBLISHED = ("vocab_size", "initializer_range", "layer_norm_eps")
"""The keys that a run of a Transformer has as published."""
OF_THE_FAMILY = (*PUBLISHED, "type_vocab_size", "pooler")
"""Those of BERT's family, whose other members have one segment and the pooler of a task."""

_ROWS = (
    Row(
        "bert",
        bert.BertConfig,
        bert.BertRun,
        bert.PRESETS,
        "bert-mini",
        settings=NO_DROPOUT,
        fixed=PUBLISHED,
        use=FILL,
    ),
    Row(
        "bert-ltr",
        bert.LeftToRightBertConfig,
        bert.LeftToRightBertRun,
        bert.LEFT_TO_RIGHT_PRESETS,
        "bert-mini-ltr",
        settings=NO_DROPOUT,
        fixed=PUBLISHED,
        use=GENERATE,
    ),
    Row(
        "roberta",
        roberta.RobertaConfig,
        roberta.RobertaRun,
        roberta.PRESETS,
        "roberta-mini",
        settings=NO_DROPOUT,
        fixed=(*OF_THE_FAMILY, "first_position"),
        use=FILL,
    ),
    Row("xlm-roberta", roberta.XlmRobertaConfig, instead="roberta"),
    Row("camembert", roberta.CamembertConfig, instead="roberta"),
    Row("distilbert", DistilBertConfig, instead="bert"),
    Row(
        "electra",
        electra.ElectraConfig,
        electra.ElectraRun,
        electra.PRESETS,
        "electra-mini",
        settings=NO_DROPOUT,
        fixed=OF_THE_FAMILY,
        use=EMBED,
    ),
    Row(
        "albert",
        albert.AlbertConfig,
        albert.AlbertRun,
        albert.PRESETS,
        "albert-mini",
        fixed=OF_THE_FAMILY,
        use=FILL,
    ),
    Row("mpnet", MpnetConfig, instead="bert"),
    Row(
        "modernbert",
        modernbert.ModernBertConfig,
        modernbert.ModernBertRun,
        modernbert.PRESETS,
        "modernbert-mini",
        fixed=(*OF_THE_FAMILY, "hidden_act", "classifier_pooling"),
        use=FILL,
    ),
    Row(
        "transformer",
        transformer.TransformerConfig,
        transformer.TransformerRun,
        transformer.PRESETS,
        "transformer-small",
        fixed=("vocab_size", "layer_norm_eps"),
        use=TRANSLATE,
        reads="pairs",
    ),
    Row(
        "bert2rnd",
        bert2rnd.Bert2RndConfig,
        bert2rnd.Bert2RndRun,
        bert2rnd.BERT2RND_PRESETS,
        "bert2rnd",
        settings={"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0},
        fixed=(*OF_THE_FAMILY, "hidden_act"),
        use=TRANSLATE,
        reads="pairs",
        encoders=("bert",),
    ),
    Row(
        "seq2seq",
        seq2seq.Seq2SeqConfig,
        seq2seq.Seq2SeqRun,
        seq2seq.PRESETS,
        "seq2seq-small",
        fixed=("vocab_size", "fixed_source"),
        use=TRANSLATE,
        reads="pairs",
    ),
    Row(
        "awd-lstm",
        awd_lstm.AwdLstmConfig,
        awd_lstm.AwdLstmRun,
        awd_lstm.PRESETS,
        "awd-lstm-small",
        use=GENERATE,
    ),
    Row(
        "elmo",
        elmo.ElmoConfig,
        elmo.ElmoRun,
        elmo.PRESETS,
        "elmo-mini",
        fixed=elmo.FIXED,
        use="senses --model {run}",
    ),
    Row(
        "gpt",
        gpt.GptConfig,
        gpt.GptRun,
        gpt.GPT_PRESETS,
        "gpt-mini",
        settings=NO_DROPOUT,
        fixed=PUBLISHED,
        use=GENERATE,
        model_type="openai-gpt",
    ),
    Row(
        "gpt2",
        gpt.Gpt2Config,
        gpt.Gpt2Run,
        gpt.GPT2_PRESETS,
        "gpt2-mini",
        settings=NO_DROPOUT,
        fixed=PUBLISHED,
        use=GENERATE,
    ),
    Row(
        "memory-network",
        memory_network.MemoryNetworkConfig,
        memory_network.MemoryNetworkRun,
        memory_network.PRESETS,
        "memory-network",
        use="answer --model {run} stories.txt",
        reads="stories",
    ),
    Row(
        "ngram",
        ngram.NgramConfig,
        ngram.NgramRun,
        ngram.PRESETS,
        "ngram",
        fixed=("vocab_size", "ngrams"),
        use=GENERATE,
    ),
    Row("nnlm", nnlm.NnlmConfig, nnlm.NnlmRun, nnlm.PRESETS, "nnlm-small", use=GENERATE),
    Row(
        "word2vec",
        word_vectors.Word2VecConfig,
        word_vectors.Word2VecRun,
        word_vectors.WORD2VEC_PRESETS,
        "word2vec-skip-gram",
        fixed=("vocab_size", "algorithm"),
        use=NEAREST,
    ),
    Row(
        "fasttext",
        word_vectors.FastTextConfig,
        word_vectors.FastTextRun,
        word_vectors.FASTTEXT_PRESETS,
        "fasttext-skip-gram",
        fixed=("vocab_size", "algorithm"),
        use=NEAREST,
    ),
    Row(
        "glove",
        word_vectors.GloveConfig,
        word_vectors.GloveRun,
        word_vectors.GLOVE_PRESETS,
        "glove",
        use=NEAREST,
    ),
    Row("word-vectors", word_vectors.WordVectorsConfig, instead="word2vec"),
    Row("model2vec", word_vectors.StaticConfig, instead="word2vec"),
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


def make_run(run: type[R], given: Mapping[str, Any], where: str = "") -> R:
    """Return the configuration of a run from the keys given.

    The keys of `architecture` replace those of the preset that `model` names. A run that starts
    from a model has that model's architecture; if it gives keys of it, it gives all
    (`recipes/configure.py` completes them).
    """
    row, model, keys = row_of(run), given.get("model"), given.get("architecture")
    preset = row.preset(model)
    start = row.started_from(given)
    if start is None:
        return values.from_dict(run, given, where, defaults={"architecture": preset})
    if isinstance(keys, Mapping) and (missing := vars(preset).keys() - keys.keys()):
        raise ConfigError(
            f"architecture lacks {min(missing)}; a run that starts from {start} gives all its keys "
            "or none"
        )
    return values.from_dict(run, given, where)


def completed(run: R) -> R:
    """Return a run with the name of its model, which is the default if neither it nor `init` is
    given, with the architecture of a new model, and with its usual length if none is given.
    """
    row, run = row_of(run), run.with_usual_length()
    preset = row.preset(run.model)
    if run.model is None and run.init is None:
        run = replace(run, model=row.default)
    if run.sized_by is None and run.architecture is None:
        run = replace(run, architecture=preset)
    return run


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
