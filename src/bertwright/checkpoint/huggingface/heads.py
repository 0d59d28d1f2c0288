"""Task heads that transformers knows too: which they are, and how `config.json` tells of them.

| kind | architecture | tensors |
|---|---|---|
| classification, regression | `BertForSequenceClassification` | `classifier.*`, over the pooler |
| tagging | `BertForTokenClassification` | `classifier.*`, no pooler |
| span | `BertForQuestionAnswering` | `qa_outputs.*`, no pooler |
| multiple-choice | `BertForMultipleChoice` | `classifier.*`, over the pooler |

A head over other layers, or with an LSTM, has no such name. Transition scores of a CRF have none
either, but the scores below them have: they are the logits of `BertForTokenClassification`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bertwright.checkpoint.huggingface.model import short
from bertwright.config.bert import BertConfig
from bertwright.config.task import HeadConfig, Kind, Scheme, TaskConfig
from bertwright.errors import ConfigError, DataError

_ARCHITECTURES: dict[str, str] = {
    "classification": "BertForSequenceClassification",
    "regression": "BertForSequenceClassification",
    "tagging": "BertForTokenClassification",
    "span": "BertForQuestionAnswering",
    "multiple-choice": "BertForMultipleChoice",
}
_OF_TOKENS = ("tagging", "span")
_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")
_TAG = re.compile(r"([BIES])-.+")
_SPAN_LENGTH, _SPAN_STRIDE = 384, 128  # Devlin et al. 2019, as in their run_squad.py


def architecture(task: TaskConfig) -> str | None:
    """The transformers class with the same scores, or None if it has none."""
    if task.head.network != "linear":
        return None
    if task.head.layers is not None and not (
        task.kind in _OF_TOKENS and task.head.layers == "last"
    ):
        return None
    if task.kind == "classification" and not task.multi_label and task.num_scores == 1:
        return None  # transformers takes one label for regression
    return _ARCHITECTURES[task.kind]


def has_pooler(task: TaskConfig) -> bool:
    """Whether transformers' class has a pooler."""
    return task.kind not in _OF_TOKENS


def linear_name(task: TaskConfig) -> str:
    """The last linear layer, by the same name here and there."""
    return "qa_outputs" if task.kind == "span" else "classifier"


def config_keys(task: TaskConfig) -> dict[str, Any]:
    """What `config.json` says of a head that transformers knows."""
    keys: dict[str, Any] = {"architectures": [architecture(task)]}
    if task.kind != "span":
        keys["classifier_dropout"] = task.head.dropout
    if task.kind in ("classification", "regression", "tagging"):
        labels = task.labels or tuple(f"LABEL_{n}" for n in range(task.num_scores))
        keys["id2label"] = {str(number): label for number, label in enumerate(labels)}
        keys["label2id"] = {label: number for number, label in enumerate(labels)}
    if task.kind == "regression":
        keys["problem_type"] = "regression"
    elif task.kind == "classification":
        several = "multi" if task.multi_label else "single"
        keys["problem_type"] = f"{several}_label_classification"
    return keys


def derived_task(content: Mapping[str, Any], config: BertConfig, where: str) -> TaskConfig | None:
    """The task of a model that transformers saved; None if it is none of ours.

    Args:
        content: of its `config.json`.
        config: the same, judged.
        where: names the file in messages.

    Raises:
        DataError: its labels, problem or dropout are not what transformers writes.
    """
    kind = _kind(content.get("architectures"))
    if kind is None:
        return None
    labels: tuple[str, ...] = ()
    multi_label = False
    if kind in ("classification", "tagging"):
        labels = _labels(content, where)
    if kind == "classification":
        problem = content.get("problem_type")
        if problem is not None and problem not in _PROBLEMS:
            raise DataError(
                f"'problem_type' in {where} is {short(problem)}; expected one of "
                f"{', '.join(_PROBLEMS)}"
            )
        multi_label = problem == "multi_label_classification"
        if problem == "regression" or (problem is None and len(labels) == 1):
            if len(labels) > 1:
                return None  # several numbers of one text
            kind, labels = "regression", ()
    length = min(512, config.max_position_embeddings)
    stride = min(_SPAN_STRIDE, length // 4)
    if kind == "span":
        length = min(_SPAN_LENGTH, length)
        stride = min(_SPAN_STRIDE, length // 2)
    try:
        return TaskConfig(
            kind=kind,
            labels=labels,
            multi_label=multi_label,
            scheme=scheme_of(labels) if kind == "tagging" else "none",
            max_length=length,
            stride=stride,
            head=HeadConfig(dropout=0.0 if kind == "span" else _dropout(content, config, where)),
        )
    except ConfigError as error:
        raise DataError(f"{where}: {error}") from error


def scheme_of(labels: Sequence[str]) -> Scheme:
    """How tags with these labels mark entities.

    IOB1 and IOB2 have the same letters. In IOB2 every entity begins with B, so a type that has I
    alone is of IOB1, in which B only parts neighbours.
    """
    tags = [label for label in labels if label != "O"]
    if not tags or not all(_TAG.fullmatch(tag) for tag in tags):
        return "none"
    if any(tag[0] in "ES" for tag in tags):
        return "iobes"
    begun = {tag[2:] for tag in tags if tag[0] == "B"}
    return "iob2" if all(tag[2:] in begun for tag in tags) else "iob1"


def _kind(architectures: Any) -> Kind | None:
    """The kind of task of an architecture; text classification stands for regression too."""
    if not isinstance(architectures, list) or len(architectures) != 1:
        return None
    kinds: dict[str, Kind] = {
        "BertForSequenceClassification": "classification",
        "BertForTokenClassification": "tagging",
        "BertForQuestionAnswering": "span",
        "BertForMultipleChoice": "multiple-choice",
    }
    name = architectures[0]
    return kinds.get(name) if isinstance(name, str) else None


def _labels(content: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Labels in the order of their numbers; without any, transformers counts two."""
    given = content.get("id2label")
    if given is None:
        count = content.get("num_labels", 2)
        if type(count) is not int or not 0 < count <= 1_000_000:
            raise DataError(f"'num_labels' in {where} is {short(count)}; expected a whole number")
        return tuple(f"LABEL_{number}" for number in range(count))
    numbers = [str(number) for number in range(len(given))] if isinstance(given, dict) else []
    if not numbers or given.keys() != set(numbers):
        raise DataError(f"'id2label' in {where} is {short(given)}; expected labels by 0, 1, 2...")
    labels = [given[number] for number in numbers]
    if not all(type(label) in (str, int) for label in labels):
        raise DataError(f"'id2label' in {where} has labels that are no text: {short(labels)}")
    return tuple(str(label) for label in labels)


def _dropout(content: Mapping[str, Any], config: BertConfig, where: str) -> float:
    """Dropout before the scores; unset, that of the layers."""
    value = content.get("classifier_dropout")
    if value is None:
        return config.hidden_dropout_prob
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise DataError(
            f"'classifier_dropout' in {where} is {short(value)}; expected 0 to less than 1"
        )
    return float(value)
