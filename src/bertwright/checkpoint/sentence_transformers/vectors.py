"""Add the files of sentence-transformers to the folder of a model with a similarity task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from bertwright.checkpoint.sentence_transformers.dense import DenseLayer, layer_of, read_layer
from bertwright.checkpoint.sentence_transformers.folder import (
    EmbeddingDefaults,
    write_defaults,
)
from bertwright.config.task import TaskConfig
from bertwright.nn.encoder import EncoderSpec
from bertwright.tasks.catalogue import kind_of
from bertwright.tasks.similarity.kind import SimilarityHead
from bertwright.tasks.similarity.options import SimilarityTask


def write(
    folder: Path,
    heads: Mapping[str, nn.Module],
    tasks: Mapping[str, TaskConfig],
    spec: EncoderSpec,
) -> None:
    """Write the files of sentence-transformers into the folder of a model, if one of its tasks
    computes vectors.

    If several tasks do, the first is used.
    """
    name = next((name for name, task in tasks.items() if kind_of(task.kind).vectors), None)
    if name is None:
        return
    task, head = tasks[name], heads[name]
    assert isinstance(task, SimilarityTask)
    layers = _dense_layers(task, head)
    defaults = EmbeddingDefaults(
        pooling=task.head.pooling,
        normalize=task.normalize,
        max_length=task.max_length,
        prompts=dict(task.prompts),
        default_prompt_name=task.default_prompt,
        dense=tuple(layer.dense for layer in layers),
        dimensions=task.dimensions,
    )
    write_defaults(folder, defaults, spec.width, layers)


def _dense_layers(task: SimilarityTask, head: nn.Module) -> list[DenseLayer]:
    assert isinstance(head, SimilarityHead)
    layers = []
    for config, layer in zip(task.dense, head.dense, strict=True):
        assert isinstance(layer, nn.Linear)
        weight = layer.weight.detach().cpu().clone()
        bias = layer.bias.detach().cpu().clone() if config.bias else None
        layers.append(layer_of(config, weight, bias))
    return layers


def take_dense(defaults: EmbeddingDefaults | None, head: nn.Module) -> None:
    """Copy the dense layers of the folder from which the encoder was loaded into a new head, if
    both have the same number of layers."""
    assert isinstance(head, SimilarityHead)
    if defaults is None or len(defaults.dense) != len(head.dense):
        return
    for layer, dense in zip(head.dense, defaults.dense, strict=True):
        assert isinstance(layer, nn.Linear)
        read = read_layer(dense)
        with torch.no_grad():
            layer.weight.copy_(read.weight)
            if read.bias is not None:
                layer.bias.copy_(read.bias)
