"""ModernBERT as transformers stores it: `config.json`, names of tensors, heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.embeddings.*` | `model.embeddings.tok_embeddings`, `.norm` |
| encoder | `encoder.layers.I.*` | `model.layers.I.*`; the last norm is `model.final_norm` |
| masked_lm | `objectives.masked_lm.*` | `head.dense`, `head.norm`, `decoder.bias` |
| pooler, of a classifier or of choices | `encoder.pooler.*` | `head.dense`, `head.norm` |
| a head of tokens | `objectives.NAME.before_scores.*` | `head.dense`, `head.norm` |
| the scores of a task | `objectives.NAME.*` | `classifier.*` |

All heads of transformers have `head.*`, so a new head starts from the weights of the masked LM's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from bertwright.config.task import TaskConfig
from bertwright.config.values import to_dict
from bertwright.errors import DataError
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout
from bertwright.models.layout import Layout
from bertwright.models.modernbert.config import ModernBertConfig
from bertwright.storage.model_folder import check_settings, wrong
from bertwright.storage.tensor_names import ParameterMapping, Parts, pair

_KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "max_position_embeddings": "max_position_embeddings",
    "embedding_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "norm_eps": "layer_norm_eps",
    "initializer_range": "initializer_range",
    "local_attention": "local_attention",
    "classifier_pooling": "classifier_pooling",
}
_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)
# The defaults of transformers for keys that a file does not state.
_DROPOUT = {"embedding_dropout": 0.0, "attention_dropout": 0.0, "mlp_dropout": 0.0}
_THETAS = {
    "full_attention": ("global_rope_theta", 160000.0),
    "sliding_attention": ("local_rope_theta", 10000.0),
}
_LAYER = {
    "attention.qkv": "attn.Wqkv",
    "attention.output": "attn.Wo",
    "feed_forward_norm": "mlp_norm",
    "feed_forward.intermediate": "mlp.Wi",
    "feed_forward.output": "mlp.Wo",
}
_OF_HEADS = {"dense.weight": "head.dense.weight", "norm.weight": "head.norm.weight"}


class ModernBertLayout(BertLayout):
    """ModernBERT as transformers stores it."""

    title: ClassVar[str] = "ModernBERT"
    classes: ClassVar[str] = "ModernBert"
    prefix: ClassVar[str] = "model."
    bare: ClassVar[tuple[str, ...]] = ("embeddings.", "layers.", "final_norm.")
    heads: ClassVar[tuple[str, ...]] = ("head.", "decoder.", "classifier.")
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "hidden_activation": ("gelu",),
        "classifier_activation": ("gelu",),
        "attention_bias": (False,),
        "mlp_bias": (False,),
        "norm_bias": (False,),
        "classifier_bias": (False,),
        "decoder_bias": (True,),
        "rope_scaling": (None,),
        "tie_word_embeddings": (True, None),
        "quantization_config": (None,),
    }
    repeats: ClassVar[Mapping[str, str]] = {
        "decoder.weight": "model.embeddings.tok_embeddings.weight",
    }

    shared: ClassVar[Collection[str]] = tuple(_OF_HEADS.values())

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        check_settings(content, path, self.title, self.held, _REQUIRED)
        content = {**_DROPOUT, **content}
        if content["embedding_dropout"] != content["mlp_dropout"]:
            raise DataError(
                f"{path}: embedding_dropout is {content['embedding_dropout']} and mlp_dropout is "
                f"{content['mlp_dropout']}; expected one dropout for both"
            )
        given = {ours: content[theirs] for theirs, ours in _KEYS.items() if theirs in content}
        given |= _read_thetas(content, path)
        given["global_attn_every_n_layers"] = _read_pattern(content, path)
        return Layout.read_config(self, given, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        assert isinstance(config, ModernBertConfig)
        sizes = to_dict(config)
        thetas = {kind: sizes[key] for kind, (key, _) in _THETAS.items()}
        kinds = ("sliding_attention", "full_attention")
        numbers = range(config.num_hidden_layers)
        head = "ForMaskedLM" if "masked_lm" in objectives else "Model"
        ends = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
        return {
            "architectures": [self.classes + head],
            "model_type": self.model_type,
            **{theirs: sizes[ours] for theirs, ours in _KEYS.items()},
            "mlp_dropout": config.hidden_dropout_prob,
            "layer_types": [kinds[config.is_global(number)] for number in numbers],
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": theta}
                for kind, theta in thetas.items()
            },
            # the same settings as versions of transformers below 5 read them
            "global_attn_every_n_layers": config.global_attn_every_n_layers,
            "global_rope_theta": config.global_rope_theta,
            "local_rope_theta": config.local_rope_theta,
            **{key: values[0] for key, values in self.held.items() if values[0] is not None},
            **ends,  # the tokenizer has these ids
        }

    def foreign_names(self, config: BertConfig) -> Parts:
        pooler = {"pooler": _weights("encoder.pooler", f"{self.prefix}pooler")}
        bias = ParameterMapping("objectives.masked_lm.bias", ("decoder.bias",))
        return {
            "encoder": self.encoder_names(config),
            **(pooler if config.pooler else {}),
            "masked_lm": [
                ParameterMapping("objectives.masked_lm.transform.weight", ("head.dense.weight",)),
                ParameterMapping("objectives.masked_lm.norm.weight", ("head.norm.weight",)),
                bias,
            ],
        }

    def encoder_names(self, config: BertConfig) -> list[ParameterMapping]:
        names = {
            "embeddings.token": "embeddings.tok_embeddings",
            "embeddings.norm": "embeddings.norm",
            f"layers.{config.num_hidden_layers - 1}.final_norm": "final_norm",
        }
        for index in range(config.num_hidden_layers):
            own = _LAYER if index == 0 else {"attention_norm": "attn_norm", **_LAYER}
            for ours, theirs in own.items():
                names[f"layers.{index}.{ours}"] = f"layers.{index}.{theirs}"
        return [
            ParameterMapping(f"encoder.{ours}.weight", (f"{self.prefix}{theirs}.weight",))
            for ours, theirs in names.items()
        ]

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return the unused tensors that do not belong to other heads, without those of a pooler: a
        classifier may have one that it does not read."""
        unread = f"{self.prefix}pooler."
        found = super().unknown(unused, names)
        return [name for name in found if not name.startswith(unread)]

    def task_names(self, name: str, task: TaskConfig) -> list[ParameterMapping]:
        head = f"objectives.{name}"
        scores = "qa_outputs" if task.kind == "span" else "classifier"
        of_tokens = task.kind in self.without_pooler
        before = f"{head}.before_scores" if of_tokens else "encoder.pooler"
        return [*_weights(before, "head"), *pair(f"{head}.{scores}", "classifier")]

    def begins_as(self, name: str) -> str | None:
        if not (name.startswith("encoder.pooler.") or ".before_scores." in name):
            return None
        return next((n for end, n in _OF_HEADS.items() if name.endswith(f".{end}")), None)

    def derived_task(
        self, content: Mapping[str, Any], config: BertConfig, path: Path
    ) -> TaskConfig | None:
        """Return the task of a model that transformers saved; its dropout is 0 if unset."""
        return super().derived_task({"classifier_dropout": 0.0, **content}, config, path)


def _weights(ours: str, theirs: str) -> list[ParameterMapping]:
    """Return the mappings of a dense layer and a norm without biases."""
    return [
        ParameterMapping(f"{ours}.{part}.weight", (f"{theirs}.{part}.weight",))
        for part in ("dense", "norm")
    ]


def _read_thetas(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the bases of rotary positions.

    They are read from `rope_parameters`, or else from the keys of transformers before version 5, in
    which a local base of null stands for the global one.

    Raises:
        DataError: the positions are not rotary as published.
    """
    found: dict[str, Any] = {}
    stated = content.get("rope_parameters")
    for kind, (key, default) in _THETAS.items():
        own = stated.get(kind) if isinstance(stated, dict) else None
        if own is None:
            found[key] = content.get(key, default)
        elif not isinstance(own, dict) or own.get("rope_type", "default") != "default":
            raise wrong(f"rope_parameters.{kind}", path, own, "the rope_type default")
        else:
            found[key] = own.get("rope_theta", default)
    if found["local_rope_theta"] is None:
        found["local_rope_theta"] = found["global_rope_theta"]
    return found


def _read_pattern(content: Mapping[str, Any], path: Path) -> Any:
    """Return the n for which every n-th layer has global attention.

    Raises:
        DataError: `layer_types` has another pattern.
    """
    kinds = content.get("layer_types")
    if kinds is None:
        return content.get("global_attn_every_n_layers", 3)
    layers = content["num_hidden_layers"]
    if isinstance(kinds, list) and len(kinds) == layers:
        wide = [number for number, kind in enumerate(kinds) if kind == "full_attention"]
        every = wide[1] if len(wide) > 1 else layers
        names = ("sliding_attention", "full_attention")
        if kinds == [names[number % every == 0] for number in range(layers)]:
            return every
    expected = "global attention in the first layer and in every n-th after it"
    raise wrong("layer_types", path, kinds, expected)
