"""Cross-encoders of sentence-transformers: classifiers of pairs, and the function of their scores.

`CrossEncoder.predict` applies `activation_fn` to the scores of a pair: a name in
`config_sentence_transformers.json` since version 5.4, in `config.json` before. Without a name, or
with one that is not of PyTorch, it is the sigmoid for one label, and none for several.

A classifier with one label and without these keys, such as BGE's rerankers, is read in the same way
by `CrossEncoder` and by the pipeline of transformers, unless its `problem_type` is regression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertwright.checkpoint.sentence_transformers.folder import SETTINGS_FILE
from bertwright.config.task import TaskConfig
from bertwright.errors import DataError
from bertwright.storage.model_folder import CONFIG, read_json, short, write_json
from bertwright.tasks.texts.options import ClassificationTask, RegressionTask

_OLDER_KEY = "sbert_ce_default_activation_function"


def is_cross_encoder(folder: Path, content: Mapping[str, Any]) -> bool:
    """Return whether a folder, with this content of its `config.json`, is marked as a cross-encoder
    of sentence-transformers."""
    kind = _settings(folder).get("model_type")
    if kind is not None:
        return bool(kind == "CrossEncoder")
    return not {"sentence_transformers", _OLDER_KEY}.isdisjoint(content)


def with_activation(task: TaskConfig, folder: Path, content: Mapping[str, Any]) -> TaskConfig:
    """Return the task of a classifier of transformers with the function that `CrossEncoder.predict`
    applies to its scores.
    """
    if not isinstance(task, ClassificationTask | RegressionTask):
        return task
    one_label = isinstance(task, RegressionTask)
    if not is_cross_encoder(folder, content):
        if isinstance(task, RegressionTask) and content.get("problem_type") != "regression":
            return replace(task, activation="sigmoid")
        return task
    settings = _settings(folder)
    prompts, default = settings.get("prompts"), settings.get("default_prompt_name")
    if default is not None and isinstance(prompts, dict) and prompts.get(default):
        raise DataError(
            f"'default_prompt_name' in {folder / SETTINGS_FILE} is {short(default)}: prompts of "
            "cross-encoders are not read; remove the key to predict without a prompt"
        )
    name = _activation_name(settings, content)
    last = name.rpartition(".")[2]
    if not name.startswith("torch."):
        last = "Sigmoid" if one_label else "Identity"
    if last == "Sigmoid":  # of several labels, each has a probability of its own
        if isinstance(task, RegressionTask):
            return replace(task, activation="sigmoid")
        return replace(task, options=replace(task.options, multi_label=True))
    if last != "Identity" and (one_label or last != "Softmax"):
        raise DataError(
            f"the 'activation_fn' of the cross-encoder {folder} is {short(name)}; expected Sigmoid "
            "or Identity of torch.nn"
        )
    return task


def mark(folder: Path, tasks: Iterable[TaskConfig]) -> None:
    """Mark a folder as a cross-encoder in its `config.json`, with the function of its only task."""
    sigmoid = any(
        task.activation == "sigmoid"
        if isinstance(task, RegressionTask)
        else isinstance(task, ClassificationTask) and task.options.multi_label
        for task in tasks
    )
    name = "activation.Sigmoid" if sigmoid else "linear.Identity"
    path = folder / CONFIG
    key = {"sentence_transformers": {"activation_fn": f"torch.nn.modules.{name}"}}
    write_json(path, read_json(path) | key)


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS_FILE
    return read_json(path) if path.is_file() else {}


def _activation_name(settings: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """Return the name of the function, in the order in which sentence-transformers looks for it;
    empty if there is none."""
    own = content.get("sentence_transformers")
    later = own if isinstance(own, dict) and "activation_fn" in own else None
    older = content.get(_OLDER_KEY) if later is None else later["activation_fn"]
    of_settings = settings.get("activation_fn")
    name = of_settings if of_settings is not None else older
    if name is not None and not isinstance(name, str):
        raise DataError(f"'activation_fn' of a cross-encoder is {short(name)}; expected a name")
    return name or ""
