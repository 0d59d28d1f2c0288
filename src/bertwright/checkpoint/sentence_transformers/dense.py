"""The dense layers of a folder of sentence-transformers, which map a pooled vector to another.

    x' = f(W x + b)

`N_Dense/config.json` has the sizes and the name of f; `model.safetensors` in the same folder has
`linear.weight` `[out, in]` and `linear.bias` `[out]`. The sizes are compared with the header of the
weights before memory is allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from bertwright.errors import DataError, IntegrityError
from bertwright.storage import model_folder, pickled
from bertwright.storage.model_folder import (
    FLOATS,
    WEIGHTS,
    check_settings,
    read_json,
    short,
    write_json,
    wrong,
)
from bertwright.tasks.similarity.options import Activation, DenseConfig

LARGEST = 1 << 16
"""The maximum width of a vector. Six layers of a BERT Large with six poolings have about 37,000."""
_CONFIG = "config.json"
_SENTENCE = "sentence_embedding"
_TANH = "torch.nn.modules.activation.Tanh"
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.nn.modules.linear.Identity": lambda x: x,
    _TANH: torch.tanh,
    "torch.nn.modules.activation.ReLU": F.relu,
    "torch.nn.modules.activation.GELU": F.gelu,
    "torch.nn.modules.activation.SiLU": F.silu,
    "torch.nn.modules.activation.Sigmoid": torch.sigmoid,
}
# Keys that change what a layer computes, and the values with which it is computed as here.
_HELD: dict[str, tuple[Any, ...]] = {
    "module_input_name": (_SENTENCE, None),
    "module_output_name": (_SENTENCE, None),
    "use_residual": (False, None),
}


@dataclass(frozen=True)
class Dense:
    """The configuration of a dense layer."""

    in_features: int
    out_features: int
    bias: bool = True
    activation: str = _TANH
    """The qualified name of the activation's class in PyTorch."""
    folder: Path = field(default=Path(), compare=False)
    """The folder of its weights."""

    def as_config(self) -> DenseConfig:
        """Return the configuration of the same layer in a similarity task."""
        name = self.activation.rpartition(".")[2].lower()
        return DenseConfig(self.out_features, cast(Activation, name), self.bias)


def layer_of(config: DenseConfig, weight: Tensor, bias: Tensor | None) -> DenseLayer:
    """Return the dense layer of a similarity task, with its weights."""
    (activation,) = (
        name for name in _ACTIVATIONS if name.rpartition(".")[2].lower() == config.activation
    )
    outputs, inputs = weight.shape
    dense = Dense(inputs, outputs, bias is not None, activation)
    return DenseLayer(dense, weight, bias)


@dataclass(frozen=True, eq=False)
class DenseLayer:
    """A dense layer with its weights."""

    dense: Dense
    weight: Tensor
    """The weight `[out, in]` in float32."""
    bias: Tensor | None
    """The bias `[out]`; None if the layer has none."""

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layer to vectors `[n, in]`, and return `[n, out]` in float32."""
        with torch.inference_mode():
            return _ACTIVATIONS[self.dense.activation](F.linear(x, self.weight, self.bias))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The weights by their names in the file."""
        named = {"linear.weight": self.weight}
        return named if self.bias is None else named | {"linear.bias": self.bias}


def read_config(folder: Path) -> Dense:
    """Return the configuration of the layer in a folder, without reading its weights."""
    path = folder / _CONFIG
    content = read_json(path)
    known = {"in_features", "out_features", "bias", "activation_function", *_HELD}
    unknown = sorted(set(content) - known)
    if unknown:
        raise DataError(f"{path} has the unknown key {short(unknown[0])}: that layer is not read")
    check_settings(content, path, "layer", _HELD)
    for key in ("in_features", "out_features"):
        value = content.get(key)
        if type(value) is not int or not 0 < value <= LARGEST:
            raise wrong(key, path, value, f"1 to {LARGEST:,}")
    bias, activation = content.get("bias", True), content.get("activation_function", _TANH)
    if type(bias) is not bool:
        raise wrong("bias", path, bias, "true or false")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise wrong("activation_function", path, activation, f"one of {', '.join(_ACTIVATIONS)}")
    return Dense(content["in_features"], content["out_features"], bias, activation, folder)


def read_layer(dense: Dense) -> DenseLayer:
    """Read the weights of a layer, and return the layer with them."""
    path = dense.folder / WEIGHTS
    if not path.is_file():
        if (dense.folder / pickled.NAME).is_file():
            raise DataError(
                f"{dense.folder} has its weights as a pickle ({pickled.NAME}), which may run code "
                "when opened; convert the model once: bertwright convert SRC DST "
                "--to sentence-transformers"
            )
        raise DataError(f"{dense.folder} has no {path.name}: the weights of a layer are missing")
    headers = model_folder.headers_of(path)
    shapes: dict[str, tuple[int, ...]] = {
        "linear.weight": (dense.out_features, dense.in_features),
        **({"linear.bias": (dense.out_features,)} if dense.bias else {}),
    }
    for name, header in headers.items():
        if header.dtype not in FLOATS:
            raise DataError(f"'{name}' in {path} is of type {header.dtype}: quantized is not read")
    found = {name: header.shape for name, header in headers.items()}
    if found != shapes:
        raise IntegrityError(
            f"{path} has {_listed(found)}; its {_CONFIG} tells of {_listed(shapes)}"
        )
    read = model_folder.read_tensors(headers, list(shapes))
    tensors = {name: value.float().clone() for name, value in read.items()}
    return DenseLayer(dense, tensors["linear.weight"], tensors.get("linear.bias"))


def write_layer(folder: Path, layer: DenseLayer) -> None:
    """Write a layer into an existing folder, in the form that all versions of sentence-transformers
    read."""
    dense = layer.dense
    content = {
        "in_features": dense.in_features,
        "out_features": dense.out_features,
        "bias": dense.bias,
        "activation_function": dense.activation,
    }
    write_json(folder / _CONFIG, content)
    model_folder.write_weights(folder, layer.tensors)


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    parts = [f"{short(name)} {list(shape)}" for name, shape in list(shapes.items())[:4]]
    return ", ".join(parts) + (", ..." if len(shapes) > 4 else "") or "nothing"
