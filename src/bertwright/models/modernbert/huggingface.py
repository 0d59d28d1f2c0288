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
from bertwright.errors import DataError
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout, Names, expand
from bertwright.models.modernbert.config import ModernBertConfig
from bertwright.storage.model_folder import wrong
from bertwright.storage.tensor_names import ParameterMapping, Parts

_THETAS = {
    "full_attention": ("global_rope_theta", 160000.0),
    "sliding_attention": ("local_rope_theta", 10000.0),
}
_HEAD: Names = {"dense.weight": "head.dense.weight", "norm.weight": "head.norm.weight"}
"""What transformers stores alike for every head."""


class ModernBertLayout(BertLayout):
    """ModernBERT as transformers stores it."""

    title: ClassVar[str] = "ModernBERT"
    classes: ClassVar[str] = "ModernBert"
    prefix: ClassVar[str] = "model."
    encoder: ClassVar[Names] = {
        "embeddings.token.weight": "embeddings.tok_embeddings.weight",
        "embeddings.norm.weight": "embeddings.norm.weight",
        "layers.#.attention_norm.weight": "layers.#.attn_norm.weight",
        "layers.#.attention.qkv.weight": "layers.#.attn.Wqkv.weight",
        "layers.#.attention.output.weight": "layers.#.attn.Wo.weight",
        "layers.#.feed_forward_norm.weight": "layers.#.mlp_norm.weight",
        "layers.#.feed_forward.intermediate.weight": "layers.#.mlp.Wi.weight",
        "layers.#.feed_forward.output.weight": "layers.#.mlp.Wo.weight",
    }
    pooler: ClassVar[Names] = {
        "dense.weight": "model.pooler.dense.weight",
        "norm.weight": "model.pooler.norm.weight",
    }
    objectives: ClassVar[Mapping[str, Names]] = {
        "masked_lm": {
            "transform.weight": "head.dense.weight",
            "norm.weight": "head.norm.weight",
            "bias": "decoder.bias",
        },
    }
    decoder: ClassVar[str] = "decoder"
    task_poolers: ClassVar[Mapping[str, Names]] = {
        "classification": _HEAD,
        "regression": _HEAD,
        "multiple-choice": _HEAD,
    }
    task_scores: ClassVar[Mapping[str, str]] = {"span": "classifier"}
    unread: ClassVar[tuple[str, ...]] = ("model.pooler.",)  # a classifier may have one unused
    bare: ClassVar[tuple[str, ...]] = ("embeddings.", "layers.", "final_norm.")
    heads: ClassVar[tuple[str, ...]] = ("head.", "decoder.", "classifier.")
    keys: ClassVar[Mapping[str, str]] = {
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
    defaults: ClassVar[Mapping[str, Any]] = {
        "embedding_dropout": 0.0,
        "attention_dropout": 0.0,
        "mlp_dropout": 0.0,
        "classifier_dropout": 0.0,
    }
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
    constants: ClassVar[Mapping[str, Any]] = {}
    shared: ClassVar[Collection[str]] = ("head.dense.weight", "head.norm.weight")

    def derived_fields(self, content: Mapping[str, Any], path: Path) -> dict[str, Any]:
        if content["embedding_dropout"] != content["mlp_dropout"]:
            raise DataError(
                f"{path}: embedding_dropout is {content['embedding_dropout']} and mlp_dropout is "
                f"{content['mlp_dropout']}; expected one dropout for both"
            )
        every = _read_pattern(content, path)
        return {**_read_thetas(content, path), "global_attn_every_n_layers": every}

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        assert isinstance(config, ModernBertConfig)
        thetas = {kind: getattr(config, key) for kind, (key, _) in _THETAS.items()}
        kinds = ("sliding_attention", "full_attention")
        numbers = range(config.num_hidden_layers)
        ends = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))
        return {
            **super().write_config(config, objectives),
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
        parts = super().foreign_names(config)
        first, last = "encoder.layers.0", f"encoder.layers.{config.num_hidden_layers - 1}"
        norm = ParameterMapping(f"{last}.final_norm.weight", ("model.final_norm.weight",))
        layers = [row for row in parts["encoder"] if row.ours != f"{first}.attention_norm.weight"]
        return {**parts, "encoder": [norm, *layers]}

    def task_names(self, name: str, task: TaskConfig) -> list[ParameterMapping]:
        of_tokens = task.kind in self.without_pooler
        before = expand(f"objectives.{name}.before_scores.", _HEAD) if of_tokens else []
        return before + super().task_names(name, task)

    def begins_as(self, name: str) -> str | None:
        if not (name.startswith("encoder.pooler.") or ".before_scores." in name):
            return None
        return next((str(n) for end, n in _HEAD.items() if name.endswith(f".{end}")), None)


def _read_thetas(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the bases of rotary positions.

    They are read from `rope_parameters`, or else from the keys of transformers before version 5, in
    which a local base of null stands for the global one.
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

    A model of n layers or fewer has one such layer, so that only the older key says n.
    """
    kinds = content.get("layer_types")
    stated = content.get("global_attn_every_n_layers", 3)
    if kinds is None:
        return stated
    layers = content["num_hidden_layers"]
    if isinstance(kinds, list) and len(kinds) == layers:
        wide = [number for number, kind in enumerate(kinds) if kind == "full_attention"]
        names = ("sliding_attention", "full_attention")
        for every in (stated, wide[1] if len(wide) > 1 else layers):
            is_number = type(every) is int and every > 0
            if is_number and kinds == [names[number % every == 0] for number in range(layers)]:
                return every
    expected = "global attention in the first layer and in every n-th after it"
    raise wrong("layer_types", path, kinds, expected)
