"""How to load a fine-tuned model, for its card: Bertwright's two ways, and transformers'."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from bertwright.checkpoint.huggingface.heads import architecture
from bertwright.config import values
from bertwright.config.task import TaskConfig

_INPUTS = {
    "tagging": '"A sentence of words."',
    "span": '("What is asked?", "A passage that may hold the answer.")',
    "multiple-choice": '("A text.", ["one way to go on", "another way"])',
}


def how_to_load(task: Mapping[str, Any], name: str | None = None) -> str:
    """The section of the card; `name` is that of the task where it is the first of several."""
    pair = '("One text.", "The other.")' if task.get("text2_column") else '"A text."'
    given = f"[{_INPUTS.get(str(task.get('kind')), pair)}]" + (f", task={name!r}" if name else "")
    command = "bertwright predict --model FOLDER" + (f" --task {shlex.quote(name)}" if name else "")
    return (
        "## How to load\n\n`FOLDER` is the folder of this file.\n\n"
        f"```sh\n{command} --input FILE --out predictions.jsonl\n```\n\n"
        '```python\nimport bertwright\n\nmodel = bertwright.load("FOLDER")\n'
        f"print(model.predict({given})[0])\n```\n\n"
        f"{_encoder('several task heads') if name else _transformers(task)}"
    )


def _transformers(task: Mapping[str, Any]) -> str:
    known = values.from_dict(TaskConfig, task)
    found = architecture(known)
    if found is None or known.head.crf:  # below a CRF are scores, which alone choose other tags
        return _encoder(f"this task head ({_head(known)})")
    name = found.replace("Bert", "AutoModel", 1)
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


def _head(task: TaskConfig) -> str:
    """What transformers has no name for."""
    head = task.head
    parts = [
        f"layers {head.layers}" if head.layers else "",
        "a BiLSTM" if head.network == "bilstm" else "",
        "a CRF" if head.crf else "",
    ]
    return ", ".join(part for part in parts if part) or "one class"
