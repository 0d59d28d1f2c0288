"""GPT and GPT-2 as transformers stores them: the keys of `config.json` and the names of tensors.

The matrices of layers are transposed there (`Conv1D`). The output layer is the token embeddings, so
every folder can generate text. Three older forms are read too: names without `transformer.`, as in
the published files; the buffers of older versions; and files that hold the tied output layer a
second time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from bertwright.models.gpt.config import GptConfig
from bertwright.models.layout import Layout
from bertwright.storage.model_folder import check_settings
from bertwright.storage.tensor_names import ParameterMapping, Parts, pair

_KEYS = {
    "vocab_size": "vocab_size",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
    "layer_norm_epsilon": "layer_norm_eps",
}
_LAYER = {
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feed_forward.intermediate": "mlp.c_fc",
    "feed_forward.output": "mlp.c_proj",
    "attention_norm": "ln_1",
    "feed_forward_norm": "ln_2",
}
_REQUIRED = ("vocab_size", "n_embd", "n_layer", "n_head")
_PREFIX = "transformer."
_HEADS = ("score.", "multiple_choice_head.", "classifier.")


def _times(factor: int, value: Any) -> int | None:
    """Return a multiple of a number in a file; None if the value is not an integer."""
    return factor * value if isinstance(value, int) else None


class GptLayout(Layout[GptConfig]):
    """GPT as transformers stores it."""

    tables: ClassVar[tuple[str, str]] = ("tokens_embed", "positions_embed")
    """The names of the token and the position embeddings."""
    architectures: ClassVar[tuple[str, str]] = ("OpenAIGPTModel", "OpenAIGPTLMHeadModel")
    """The names of the model without and with the output layer."""
    activation: ClassVar[str] = "afn"
    """The key of the activation of the feed-forward layer."""
    activations: ClassVar[Mapping[str, str]] = {"gelu": "gelu_tanh", "relu": "relu"}
    """The values of that key and our names for them. If several stand for one of ours, the first is
    written.
    """
    inner: ClassVar[str | None] = None
    """The key of the width of the feed-forward layer; None: the format has no such key."""
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "tie_word_embeddings": (True,),
        "quantization_config": (None,),
    }
    """Keys that change what is computed, and the values for which our model computes the same."""

    @property
    def repeats(self) -> Mapping[str, str]:
        return {"lm_head.weight": f"{_PREFIX}{self.tables[0]}.weight"}

    def read_config(self, content: Mapping[str, Any], path: Path) -> GptConfig:
        allowed = {**self.held, self.activation: tuple(self.activations)}
        allowed["embd_pdrop"] = (content.get("resid_pdrop"),)  # they are one dropout here
        check_settings(content, path, self.model_type, allowed, _REQUIRED)
        given = {ours: content[theirs] for theirs, ours in _KEYS.items() if theirs in content}
        if self.activation in content:
            given["hidden_act"] = self.activations[content[self.activation]]
        if self.inner is not None and content.get(self.inner) != _times(4, content["n_embd"]):
            given["intermediate_size"] = content.get(self.inner)
        return super().read_config(given, path)

    def write_config(self, config: GptConfig, objectives: frozenset[str]) -> dict[str, Any]:
        return {
            "architectures": [self.architectures["next_token" in objectives]],
            "model_type": self.model_type,
            **{theirs: getattr(config, ours) for theirs, ours in _KEYS.items()},
            "embd_pdrop": config.hidden_dropout_prob,
            "bos_token_id": None,
            "eos_token_id": None,
            self.activation: next(
                theirs for theirs, ours in self.activations.items() if ours == config.hidden_act
            ),
            **self._inner(config),
            **{key: values[0] for key, values in self.held.items() if values[0] is not None},
        }

    def _inner(self, config: GptConfig) -> dict[str, int]:
        """Return the key for the width of the feed-forward layer, unless that width is 4 H."""
        size: Any = config.intermediate_size
        return {} if size is None or self.inner is None else {self.inner: size}

    def foreign_names(self, config: GptConfig) -> Parts:
        encoder = [
            ParameterMapping(f"encoder.embeddings.{ours}.weight", (f"{_PREFIX}{theirs}.weight",))
            for ours, theirs in zip(("token", "position"), self.tables, strict=True)
        ]
        for index in range(config.num_hidden_layers):
            for ours, theirs in _LAYER.items():
                weight, bias = pair(
                    f"encoder.layers.{index}.{ours}", f"{_PREFIX}h.{index}.{theirs}"
                )
                encoder += [weight._replace(transposed="norm" not in ours), bias]
        return {"encoder": encoder, "next_token": []}

    def current_name(self, name: str) -> str | None:
        """Return the current name of a tensor, with the prefix; None for a buffer."""
        if name.endswith((".attn.bias", ".attn.masked_bias", "position_ids")):
            return None
        bare = name.startswith(("h.", "ln_f.", *(f"{table}." for table in self.tables)))
        return _PREFIX + name if bare else name

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return the names of all unused tensors except those of other heads."""
        return [name for today, name in unused.items() if not today.startswith(_HEADS)]


class Gpt2Layout(GptLayout):
    """GPT-2 as transformers stores it."""

    tables: ClassVar[tuple[str, str]] = ("wte", "wpe")
    architectures: ClassVar[tuple[str, str]] = ("GPT2Model", "GPT2LMHeadModel")
    activation: ClassVar[str] = "activation_function"
    activations: ClassVar[Mapping[str, str]] = {
        "gelu_new": "gelu_tanh",
        "gelu_pytorch_tanh": "gelu_tanh",
        "gelu_fast": "gelu_tanh",
        "gelu": "gelu",
        "gelu_python": "gelu",
        "relu": "relu",
    }
    inner: ClassVar[str | None] = "n_inner"
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "reorder_and_upcast_attn": (False, True),
        "add_cross_attention": (False,),
        "tie_word_embeddings": (True,),
        "quantization_config": (None,),
    }

    def foreign_names(self, config: GptConfig) -> Parts:
        """Return the names of `GptLayout`, and those of the norm after the last layer."""
        parts = super().foreign_names(config)
        last = f"encoder.layers.{config.num_hidden_layers - 1}.final_norm"
        parts["encoder"] += pair(last, f"{_PREFIX}ln_f")
        return parts
