"""BERT as transformers writes it: `config.json`, names of tensors, task heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `bert.embeddings.*` |
| encoder | `encoder.layers.I.*` | `bert.encoder.layer.I.*` |
| pooler | `encoder.pooler.dense.*` | `bert.pooler.dense.*` |
| masked_lm | `objectives.masked_lm.*` | `cls.predictions.*` |
| next_sentence | `objectives.next_sentence.classifier.*` | `cls.seq_relationship.*` |
| a task by name | `objectives.NAME.classifier.*` | `classifier.*` |
| a span task | `objectives.NAME.qa_outputs.*` | `qa_outputs.*` |

Query, key and value are three tensors there and one here, `[3 H, H]`, stacked in this order. Three
older forms are read too: files without `bert.` (a bare encoder), `gamma` and `beta` for a norm's
weight and bias (TensorFlow's names), and files that store the decoder again although it is tied to
the token embeddings.

`config.json` goes through a closed schema: sizes must be within limits, and every key that would
change the computation must have the one value that our BERT implements.

| kind of task | architecture | tensors |
|---|---|---|
| classification, regression | `BertForSequenceClassification` | `classifier.*`, over the pooler |
| tagging | `BertForTokenClassification` | `classifier.*`, no pooler |
| span | `BertForQuestionAnswering` | `qa_outputs.*`, no pooler |
| multiple-choice | `BertForMultipleChoice` | `classifier.*`, over the pooler |

A head over other layers, or with an LSTM, has no such class. Neither have the transition scores of
a CRF; the scores below them are the logits of `BertForTokenClassification`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from bertwright.config.task import Scheme, TaskConfig
from bertwright.config.values import to_dict
from bertwright.models.bert.config import BertConfig
from bertwright.models.layout import Layout
from bertwright.storage.model_folder import check_settings, wrong
from bertwright.storage.tensor_names import ParameterMapping, Parts, pair

Names = Mapping[str, str | tuple[str, ...]]
"""Our names of modules, or of tensors (`*.weight`, `*.bias`), with those in a file; several are
stacked. `#` stands for the number of a layer."""

EMBEDDINGS: Names = {
    "embeddings.token.weight": "embeddings.word_embeddings.weight",
    "embeddings.position.weight": "embeddings.position_embeddings.weight",
    "embeddings.segment.weight": "embeddings.token_type_embeddings.weight",
    "embeddings.norm": "embeddings.LayerNorm",
}
LM_HEAD: Mapping[str, Names] = {
    "masked_lm": {
        "transform": "lm_head.dense",
        "norm": "lm_head.layer_norm",
        "bias": "lm_head.bias",
    },
}
"""The masked LM of RoBERTa and of MPNet."""
CLASSIFIER_POOLERS: Mapping[str, Names] = {
    "classification": {"dense": "classifier.dense"},
    "regression": {"dense": "classifier.dense"},
}
CLASSIFIER_SCORES = {
    "classification": "classifier.out_proj",
    "regression": "classifier.out_proj",
}
"""The pooler and the scores of a classifier that holds both: RoBERTa's, ELECTRA's and MPNet's."""
# Buffers that some versions of transformers wrote; they hold 0, 1, 2... and zeros.
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")

_ACTIVATIONS: dict[str, Literal["gelu", "gelu_tanh"]] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}
_WRITTEN_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
}
# Keys that change what a BERT computes, and the values for which our BERT computes the same.
_HELD: dict[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "tie_word_embeddings": (True, None),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}


@dataclass(frozen=True)
class TaskClass:
    """A class of transformers that computes the scores of a kind of task."""

    name: str
    """Its name, without the name of the model at its beginning."""
    has_labels: bool = True
    """Whether `config.json` names the labels of its scores."""
    of_tokens: bool = False
    """Whether it scores tokens, without the pooler."""
    linear: str = "classifier"
    """The name of the layer that computes the scores, which is the same there and here."""


# The kinds of tasks for which transformers has a class. They are listed here rather than in the
# files of the kinds, because this is a table of foreign names and models do not import tasks.
_TASK_CLASSES: dict[str, TaskClass] = {
    "classification": TaskClass("ForSequenceClassification"),
    "regression": TaskClass("ForSequenceClassification"),
    "tagging": TaskClass("ForTokenClassification", of_tokens=True),
    "span": TaskClass(
        "ForQuestionAnswering", has_labels=False, of_tokens=True, linear="qa_outputs"
    ),
    "multiple-choice": TaskClass("ForMultipleChoice", has_labels=False),
}
_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")
_TAG = re.compile(r"([BIES])-.+")
_SPAN_LENGTH, _SPAN_STRIDE = 384, 128  # Devlin et al. 2019, as in their run_squad.py


class BertLayout(Layout[BertConfig]):
    """BERT as transformers stores it. Models of BERT's family override the tables that differ."""

    title: ClassVar[str] = "BERT"
    """The name of the model in messages."""
    classes: ClassVar[str] = "Bert"
    """The beginning of the names of its classes in transformers."""
    architectures: ClassVar[Mapping[frozenset[str], str]] = {
        frozenset({"masked_lm", "next_sentence"}): "ForPreTraining",
        frozenset({"masked_lm"}): "ForMaskedLM",
        frozenset({"next_sentence"}): "ForNextSentencePrediction",
        frozenset(): "Model",
    }
    """The end of the name of the class that has these pre-training heads."""

    prefix: ClassVar[str] = "bert."
    """The beginning of the names of the encoder's tensors."""
    encoder: ClassVar[Names] = {
        **EMBEDDINGS,
        "layers.#.attention.qkv": (
            "encoder.layer.#.attention.self.query",
            "encoder.layer.#.attention.self.key",
            "encoder.layer.#.attention.self.value",
        ),
        "layers.#.attention.output": "encoder.layer.#.attention.output.dense",
        "layers.#.attention_norm": "encoder.layer.#.attention.output.LayerNorm",
        "layers.#.feed_forward.intermediate": "encoder.layer.#.intermediate.dense",
        "layers.#.feed_forward.output": "encoder.layer.#.output.dense",
        "layers.#.feed_forward_norm": "encoder.layer.#.output.LayerNorm",
    }
    """The names in the encoder, with those after the prefix."""
    pooler: ClassVar[Names] = {"dense": "bert.pooler.dense"}
    """The names in the pooler."""
    objectives: ClassVar[Mapping[str, Names]] = {
        "masked_lm": {
            "transform": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "bias": "cls.predictions.bias",
        },
        "next_sentence": {"classifier": "cls.seq_relationship"},
    }
    """The names in each pre-training head."""
    decoder: ClassVar[str] = "cls.predictions.decoder"
    """The output layer of the masked LM, which files may hold beside the token embeddings and the
    bias to which it is tied."""
    task_poolers: ClassVar[Mapping[str, Names]] = {}
    """Maps a kind of task to the names of the pooler, if it is stored with the task's head."""
    task_scores: ClassVar[Mapping[str, str]] = {}
    """Maps a kind of task to the layer that computes its scores, if its name differs from ours."""

    bare: ClassVar[tuple[str, ...]] = ("embeddings.", "encoder.", "pooler.")
    """The beginnings of the encoder's names in files of a bare encoder, without the prefix."""
    heads: ClassVar[tuple[str, ...]] = ("cls.", "classifier.", "qa_outputs.")
    """The beginnings of the names of heads, which are ignored where they are not read."""
    unread: ClassVar[tuple[str, ...]] = ()
    """The beginnings of the names of tensors of the encoder that may be ignored too."""

    keys: ClassVar[Mapping[str, str] | None] = None
    """The keys of `config.json` with our fields that they set; None: each field is a key."""
    required: ClassVar[Collection[str]] = (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
    )
    """The keys that every `config.json` must have."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """The values of transformers for keys that a `config.json` does not state, if ours differ."""
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = _HELD
    """Keys that change what is computed, and the values for which our model computes the same."""
    constants: ClassVar[Mapping[str, Any]] = {
        "position_embedding_type": "absolute",
        "tie_word_embeddings": True,
    }
    """Keys that are always written with these values."""
    unwritten: ClassVar[Collection[str]] = ()
    """Fields of the configuration that are not written."""
    without_pooler: ClassVar[Collection[str]] = [
        kind for kind, task_class in _TASK_CLASSES.items() if task_class.of_tokens
    ]
    dropout_keys: ClassVar[Mapping[str, str]] = {
        kind: "classifier_dropout" for kind in _TASK_CLASSES if kind != "span"
    }
    """Maps a kind of task to the key of the dropout before its scores. Without a key, the dropout
    is that of the layers; before the scores of spans there is none."""

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        """Return the configuration in a `config.json`, or in a file of another name with its
        keys.
        """
        content = {**self.defaults, **content}
        check_settings(content, path, self.title, self.held, self.required)
        given = {ours: content[key] for key, ours in self.fields().items() if key in content}
        if "hidden_act" in given:
            given["hidden_act"] = activation_of(given["hidden_act"], path)
        return super().read_config({**given, **self.derived_fields(content, path)}, path)

    def fields(self) -> Mapping[str, str]:
        """Return the keys of `config.json` with the fields that they set."""
        if self.keys is not None:
            return self.keys
        return {field.name: field.name for field in fields(self.config)}

    def derived_fields(self, content: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Return the fields that no single key sets; `content` has the required keys and the
        defaults.
        """
        return {}

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        """Return the `config.json` of a model with these pre-training heads, as transformers writes
        it.
        """
        values = to_dict(config)
        values["hidden_act"] = _WRITTEN_ACTIVATIONS[config.hidden_act]
        unwritten = {*self.unwritten, *(["pooler"] if config.pooler else [])}
        return {
            "architectures": [self.classes + self.architectures[objectives]],
            "model_type": self.model_type,
            **{key: values[ours] for key, ours in self.fields().items() if ours not in unwritten},
            **self.constants,
        }

    def foreign_names(self, config: BertConfig) -> Parts:
        """Return all parameters by part, with transformers' names."""
        absent = self.absent(config)
        encoder = {ours: name for ours, name in self.encoder.items() if ours not in absent}
        parts = {"encoder": expand("encoder.", encoder, self.prefix, config.num_hidden_layers)}
        if config.pooler:
            parts["pooler"] = expand("encoder.pooler.", self.pooler)
        for objective, names in self.objectives.items():
            parts[objective] = expand(f"objectives.{objective}.", names)
        return parts

    def absent(self, config: BertConfig) -> Collection[str]:
        """Return the names in the table of the encoder that an encoder does not have."""
        absent = {
            "embeddings.segment.weight": not config.type_vocab_size,
            "embeddings.project": not config.projects_embeddings,
        }
        return [name for name, is_absent in absent.items() if is_absent]

    @property
    def repeats(self) -> Mapping[str, str]:
        bias = self.objectives["masked_lm"]["bias"]
        tied = {
            f"{self.decoder}.weight": f"{self.prefix}{self.encoder['embeddings.token.weight']}",
            f"{self.decoder}.bias": str(bias),
        }
        return {name: original for name, original in tied.items() if name != original}

    def current_name(self, name: str) -> str | None:
        """Return the current name of a tensor, with the prefix; None for a buffer."""
        if name.startswith("objectives."):
            return name  # ours: in `heads.safetensors`
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            name = name.removesuffix(old) + new if name.endswith(old) else name
        name = self.prefix + name if name.startswith(self.bare) else name
        return None if name.removeprefix(self.prefix) in _BUFFERS else name

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return the unused tensors that do not belong to other heads.

        These are the tensors with the encoder's prefix; in a file of a bare encoder, also those
        whose names do not begin like a head's.
        """
        bare = any(name.startswith(self.bare) for name in names)
        return [
            name
            for today, name in unused.items()
            if (today.startswith(self.prefix) or (bare and not today.startswith(self.heads)))
            and not name.startswith(self.unread)
        ]

    def task_parts(
        self, tasks: Mapping[str, TaskConfig], pretrained: bool, pooled: bool = True
    ) -> Parts:
        """Return the parameters of the only task of a model without pre-training heads, if
        transformers has a class for it."""
        if len(tasks) != 1 or pretrained:
            return {}
        (name, task), *_ = tasks.items()
        if self.task_architecture(task, pooled) is None:
            return {}
        return {name: self.task_names(name, task)}

    def task_names(self, name: str, task: TaskConfig) -> list[ParameterMapping]:
        """Return the parameters of a head for which transformers has a class."""
        linear = _TASK_CLASSES[task.kind].linear
        return [
            *expand("encoder.pooler.", self.task_poolers.get(task.kind, {})),
            *expand(f"objectives.{name}.", {linear: self.task_scores.get(task.kind, linear)}),
        ]

    def task_architecture(self, task: TaskConfig, pooled: bool = True) -> str | None:
        """Return the class of transformers that computes the same scores; None if there is none."""
        task_class = _TASK_CLASSES.get(task.kind)
        if task_class is not None and not (pooled or task_class.of_tokens):
            return None  # our head reads the mean of all tokens
        if task_class is None or task.head.network != "linear" or task.head.hidden_size:
            return None
        reads_last = task_class.of_tokens and task.head.layers == "last"
        if task.head.layers is not None and not reads_last:
            return None
        if task.problem_type == "single_label_classification" and task.num_scores == 1:
            return None  # for transformers, a single label means regression
        return self.classes + task_class.name

    def task_keys(self, task: TaskConfig) -> dict[str, Any]:
        """Return the keys of `config.json` for a head for which transformers has a class."""
        keys: dict[str, Any] = {"architectures": [self.task_architecture(task)]}
        if task.kind in self.dropout_keys:
            keys[self.dropout_keys[task.kind]] = task.head.dropout
        if _TASK_CLASSES[task.kind].has_labels:
            labels = task.labels or tuple(f"LABEL_{n}" for n in range(task.num_scores))
            keys["id2label"] = {str(number): label for number, label in enumerate(labels)}
            keys["label2id"] = {label: number for number, label in enumerate(labels)}
        if task.problem_type is not None:
            keys["problem_type"] = task.problem_type
        return keys

    def derived_task(
        self, content: Mapping[str, Any], config: BertConfig, path: Path
    ) -> dict[str, Any] | None:
        """Return the task of a model that transformers saved, with the keys of `task.json`; None if
        we have no such task.
        """
        kind = self._kind(content.get("architectures"))
        if kind is None:
            return None
        content = {**self.defaults, **content}
        task_class = _TASK_CLASSES[kind]
        labels = _labels(content, path) if task_class.has_labels else ()
        scheme = scheme_of(labels) if task_class.of_tokens else "none"
        multi_label = False
        if kind == "classification":
            problem = content.get("problem_type")
            if problem is not None and problem not in _PROBLEMS:
                raise wrong("problem_type", path, problem, f"one of {', '.join(_PROBLEMS)}")
            multi_label = problem == "multi_label_classification"
            if problem == "regression" or (problem is None and len(labels) == 1):
                if len(labels) > 1:
                    return None  # several numbers of one text
                kind, labels = "regression", ()
        length = min(512, config.max_length)
        stride = min(_SPAN_STRIDE, length // 4)
        if kind == "span":
            length = min(_SPAN_LENGTH, length)
            stride = min(_SPAN_STRIDE, length // 2)
        task: dict[str, Any] = {
            "kind": kind,
            "max_length": length,
            "stride": stride,
            "head": {"dropout": self._dropout(kind, content, config, path)},
        }
        if labels:
            task["labels"] = labels
        if multi_label:
            task["options"] = {"multi_label": True}
        if scheme != "none":
            task["scheme"] = scheme
        if kind == "span":
            task["unanswerable"] = None
        return task

    def _kind(self, architectures: Any) -> str | None:
        """Return the kind of task of an architecture; None if there is none.

        The class of text classification is also that of regression; its kind is "classification".
        """
        if not isinstance(architectures, list) or len(architectures) != 1:
            return None
        kinds = {
            self.classes + task_class.name: kind
            for kind, task_class in _TASK_CLASSES.items()
            if kind != "regression"
        }
        name = architectures[0]
        return kinds.get(name) if isinstance(name, str) else None

    def _dropout(
        self, kind: str, content: Mapping[str, Any], config: BertConfig, path: Path
    ) -> float:
        """Return the dropout before the scores. If it is not set, it is that of the layers."""
        key = self.dropout_keys.get(kind)
        if key is None:
            return 0.0 if kind == "span" else config.hidden_dropout_prob
        value = content.get(key)
        if value is None:
            return config.hidden_dropout_prob
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise wrong(key, path, value, "0 to less than 1")
        return float(value)


def expand(ours: str, names: Names, theirs: str = "", layers: int = 0) -> list[ParameterMapping]:
    """Return the parameters of a table.

    Args:
        ours: the beginning of our names.
        names: the table.
        theirs: the beginning of the names in a file.
        layers: the number of layers, each of which has the parameters with `#`.
    """
    rows = [(our, (their,) if isinstance(their, str) else their) for our, their in names.items()]
    numbered = [
        (our.replace("#", str(number)), tuple(name.replace("#", str(number)) for name in stacked))
        for number in range(layers)
        for our, stacked in rows
        if "#" in our
    ]
    mappings: list[ParameterMapping] = []
    for our, stacked in [*(row for row in rows if "#" not in row[0]), *numbered]:
        in_file = [theirs + name for name in stacked]
        if our.rpartition(".")[2] in ("weight", "bias"):
            mappings.append(ParameterMapping(ours + our, tuple(in_file)))
        else:
            mappings += pair(ours + our, *in_file)
    return mappings


def activation_of(name: Any, path: Path) -> Literal["gelu", "gelu_tanh"]:
    """Return our name of an activation in a `config.json`."""
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise wrong("hidden_act", path, name, f"one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def scheme_of(labels: Sequence[str]) -> Scheme:
    """Return the scheme in which tags with these labels mark entities.

    IOB1 and IOB2 have the same letters. In IOB2 every entity begins with B, so labels in which a
    type has I but no B are IOB1, where B only separates adjacent entities.
    """
    tags = [label for label in labels if label != "O"]
    if not tags or not all(_TAG.fullmatch(tag) for tag in tags):
        return "none"
    if any(tag[0] in "ES" for tag in tags):
        return "iobes"
    begun = {tag[2:] for tag in tags if tag[0] == "B"}
    return "iob2" if all(tag[2:] in begun for tag in tags) else "iob1"


def _labels(content: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return the labels in the order of their numbers.

    Without `id2label` they are `LABEL_0` to `LABEL_(n-1)`, where n is `num_labels`, by default 2 as
    in transformers.
    """
    given = content.get("id2label")
    if given is None:
        count = content.get("num_labels", 2)
        if type(count) is not int or not 0 < count <= 1_000_000:
            raise wrong("num_labels", path, count, "a whole number")
        return tuple(f"LABEL_{number}" for number in range(count))
    numbers = [str(number) for number in range(len(given))] if isinstance(given, dict) else []
    if not numbers or given.keys() != set(numbers):
        raise wrong("id2label", path, given, "labels by 0, 1, 2...")
    labels = [given[number] for number in numbers]
    if not all(type(label) in (str, int) for label in labels):
        raise wrong("id2label", path, labels, "texts")
    return tuple(str(label) for label in labels)
