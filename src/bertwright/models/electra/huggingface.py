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

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from bertwright.config.task import TaskConfig
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout, masked_lm_names
from bertwright.models.electra.config import ElectraConfig
from bertwright.models.electra.replaced_tokens import Generator
from bertwright.storage.tensor_names import ParameterMapping, Parts, pair

_GENERATOR = "generator."
_POOLER = "encoder.pooler.dense"


class ElectraLayout(BertLayout):
    """ELECTRA as transformers stores it."""

    title: ClassVar[str] = "ELECTRA"
    classes: ClassVar[str] = "Electra"
    prefix: ClassVar[str] = "electra."
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
    held: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **BertLayout.held,
        "summary_type": ("first",),
        "summary_use_proj": (True,),
        "summary_activation": ("gelu",),
    }
    repeats: ClassVar[Mapping[str, str]] = {
        "generator_lm_head.weight": "electra.embeddings.word_embeddings.weight",
    }

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        # the default of transformers, for a file that does not state the width
        return super().read_config({"embedding_size": 128, **content}, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        kind = "ForPreTraining" if "replaced_tokens" in objectives else "Model"
        kind = "ForMaskedLM" if "masked_lm" in objectives else kind
        content = {**super().write_config(config, frozenset())}
        content["architectures"] = [self.classes + kind]
        content.pop("pooler", None)  # a classifier has one
        if "replaced_tokens" not in objectives:
            for name in [name for name in content if name.startswith("generator_")]:
                del content[name]
        return content

    def foreign_names(self, config: BertConfig) -> Parts:
        assert isinstance(config, ElectraConfig)
        pooler = {"pooler": pair(_POOLER, f"{self.prefix}pooler.dense")}
        encoder = self.encoder_names(config)
        if config.embedding_size != config.hidden_size:
            encoder += pair("encoder.embeddings.project", f"{self.prefix}embeddings_project")
        head = "objectives.replaced_tokens"
        replaced = [
            *pair(f"{head}.dense", "discriminator_predictions.dense"),
            *pair(f"{head}.prediction", "discriminator_predictions.dense_prediction"),
        ]
        if config.generator_hidden_size:
            with torch.device("meta"):
                names = list(Generator(config).state_dict())
            replaced += [
                ParameterMapping(f"{head}.generator.{name}", (_GENERATOR + name,)) for name in names
            ]
        return {
            "encoder": encoder,
            **(pooler if config.pooler else {}),
            "masked_lm": masked_lm_names(
                "generator_predictions.dense",
                "generator_predictions.LayerNorm",
                "generator_lm_head.bias",
            ),
            "replaced_tokens": replaced,
        }

    def task_names(self, name: str, task: TaskConfig) -> list[ParameterMapping]:
        if task.kind == "multiple-choice":
            return [*pair(_POOLER, "sequence_summary.summary"), *super().task_names(name, task)]
        if task.kind in ("classification", "regression"):
            return [
                *pair(_POOLER, "classifier.dense"),
                *pair(f"objectives.{name}.classifier", "classifier.out_proj"),
            ]
        return super().task_names(name, task)
