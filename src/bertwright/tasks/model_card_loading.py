"""How to load a fine-tuned model, for its card: Bertwright's two ways, and transformers'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_CLASSES = {
    "classification": "SequenceClassification",
    "regression": "SequenceClassification",
    "tagging": "TokenClassification",
    "span": "QuestionAnswering",
    "multiple-choice": "MultipleChoice",
}


def how_to_load(task: Mapping[str, Any] | None) -> str:
    """The section of the card; None: of several tasks."""
    command = f"bertwright predict --model FOLDER{'' if task is not None else ' --task NAME'}"
    return (
        "## How to load\n\n`FOLDER` is the folder of this file.\n\n"
        f"```sh\n{command} --input FILE --out predictions.jsonl\n```\n\n"
        '```python\nimport bertwright\n\nmodel = bertwright.load("FOLDER")\n```\n\n'
        f"{_transformers(task) if task is not None else _encoder('several task heads')}"
    )


def is_plain(head: Mapping[str, Any]) -> bool:
    """Whether transformers has a name for the head."""
    return (
        not head.get("layers") and head.get("network", "linear") == "linear" and not head.get("crf")
    )


def _transformers(task: Mapping[str, Any]) -> str:
    name = f"AutoModelFor{_CLASSES.get(str(task.get('kind')), 'SequenceClassification')}"
    if not is_plain(task.get("head") or {}):
        return _encoder(f"this task head ({_head(task.get('head') or {})})")
    return (
        "Transformers reads one window, and merges none.\n\n"
        f"```python\nfrom transformers import {name}, AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
        f'model = {name}.from_pretrained("FOLDER")\n```'
    )


def _encoder(what: str) -> str:
    """How transformers loads what it has no name for."""
    return (
        f"Transformers has no name for {what}: it loads the encoder alone, and the scores are "
        "Bertwright's.\n\n"
        "```python\nfrom transformers import AutoModel, AutoTokenizer\n\n"
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")\n'
        'encoder = AutoModel.from_pretrained("FOLDER")\n```'
    )


def _head(head: Mapping[str, Any]) -> str:
    """What is not plain about it."""
    parts = [
        f"layers {head['layers']}" if head.get("layers") else "",
        "a BiLSTM" if head.get("network") == "bilstm" else "",
        "a CRF" if head.get("crf") else "",
    ]
    return ", ".join(part for part in parts if part)
