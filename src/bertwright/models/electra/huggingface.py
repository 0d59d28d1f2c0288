"""ELECTRA as transformers stores it: `config.json`, names of tensors, heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.*` | `electra.*`, as BERT's |
| encoder | `encoder.embeddings.project.*` | `electra.embeddings_project.*` |
| masked_lm | `objectives.masked_lm.*` | `generator_predictions.*`, `generator_lm_head.bias` |
| replaced_tokens | `objectives.replaced_tokens.*` | `discriminator_predictions.*` |
| pooler, of a classifier | `encoder.pooler.dense.*` | `classifier.dense.*` |
| a classifier | `objectives.NAME.classifier.*` | `classifier.out_proj.*` |
| pooler, of choices | `encoder.pooler.dense.*` | `sequence_summary.summary.*` |

Other task heads have BERT's names. The generator of a model that is trained here is stored with the
discriminator, under our own names after `generator.`; transformers has two separate models.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch

from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import (
    CLASSIFIER_POOLERS,
    CLASSIFIER_SCORES,
    BertLayout,
    Names,
)
from bertwright.models.electra.config import ElectraConfig
from bertwright.models.electra.replaced_tokens import Generator
from bertwright.storage.tensor_names import ParameterMapping, Parts


class ElectraLayout(BertLayout):
    """ELECTRA as transformers stores it."""

    title: ClassVar[str] = "ELECTRA"
    classes: ClassVar[str] = "Electra"
    architectures: ClassVar[Mapping[frozenset[str], str]] = {
        frozenset({"replaced_tokens"}): "ForPreTraining",
        frozenset({"masked_lm"}): "ForMaskedLM",
        frozenset({"masked_lm", "replaced_tokens"}): "ForMaskedLM",
        frozenset(): "Model",
    }
    prefix: ClassVar[str] = "electra."
    encoder: ClassVar[Names] = {
        **BertLayout.encoder,
        "embeddings.project": "embeddings_project",
    }
    pooler: ClassVar[Names] = {"dense": "electra.pooler.dense"}
    objectives: ClassVar[Mapping[str, Names]] = {
        "masked_lm": {
            "transform": "generator_predictions.dense",
            "norm": "generator_predictions.LayerNorm",
            "bias": "generator_lm_head.bias",
        },
        "replaced_tokens": {
            "dense": "discriminator_predictions.dense",
            "prediction": "discriminator_predictions.dense_prediction",
        },
    }
    decoder: ClassVar[str] = "generator_lm_head"
    task_poolers: ClassVar[Mapping[str, Names]] = {
        **CLASSIFIER_POOLERS,
        "multiple-choice": {"dense": "sequence_summary.summary"},
    }
    task_scores: ClassVar[Mapping[str, str]] = CLASSIFIER_SCORES
    bare: ClassVar[tuple[str, ...]] = ("embeddings.", "embeddings_project.", "encoder.")
    heads: ClassVar[tuple[str, ...]] = (
        "generator_",
        "discriminator_predictions.",
        "classifier.",
        "sequence_summary.",
        "qa_outputs.",
    )
    dropout_keys: ClassVar[Mapping[str, str]] = {
        **BertLayout.dropout_keys,
        "multiple-choice": "summary_last_dropout",
    }
    defaults: ClassVar[Mapping[str, Any]] = {"embedding_size": 128}
    unwritten: ClassVar[Collection[str]] = ("pooler",)  # a classifier has one
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **BertLayout.held,
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
    }

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        content = super().write_config(config, objectives)
        if "replaced_tokens" in objectives:
            return content
        return {key: value for key, value in content.items() if not key.startswith("generator_")}

    def foreign_names(self, config: BertConfig) -> Parts:
        assert isinstance(config, ElectraConfig)
        parts = super().foreign_names(config)
        if config.generator_hidden_size:
            with torch.device("meta"):
                names = list(Generator(config).state_dict())
            ours = "objectives.replaced_tokens.generator."
            parts["replaced_tokens"] += [
                ParameterMapping(ours + name, (f"generator.{name}",)) for name in names
            ]
        return parts
