"""RoBERTa, XLM-R and CamemBERT as transformers stores them: `config.json`, names of tensors, heads.

| part | ours (in a learner) | theirs |
|---|---|---|
| encoder | `encoder.*` | `roberta.*`, as BERT's |
| masked_lm | `objectives.masked_lm.*` | `lm_head.*` |
| pooler | `encoder.pooler.dense.*` | `roberta.pooler.dense.*` |
| pooler, of a classifier | `encoder.pooler.dense.*` | `classifier.dense.*` |
| a classifier | `objectives.NAME.classifier.*` | `classifier.out_proj.*` |

Other task heads have BERT's names. In training, a classifier of transformers has one more dropout,
between `<s>` and the dense layer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from bertwright.config.task import TaskConfig
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout, masked_lm_names
from bertwright.models.roberta.config import RobertaConfig
from bertwright.storage.model_folder import wrong
from bertwright.storage.tensor_names import ParameterMapping, Parts, pair


class RobertaLayout(BertLayout):
    """RoBERTa as transformers stores it."""

    title: ClassVar[str] = "RoBERTa"
    classes: ClassVar[str] = "Roberta"
    prefix: ClassVar[str] = "roberta."
    heads: ClassVar[tuple[str, ...]] = ("lm_head.", "classifier.", "qa_outputs.")
    dropout_keys: ClassVar[Mapping[str, str]] = {
        kind: key for kind, key in BertLayout.dropout_keys.items() if kind != "multiple-choice"
    }
    repeats: ClassVar[Mapping[str, str]] = {
        "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
        "lm_head.decoder.bias": "lm_head.bias",
    }

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        padding = content.get("pad_token_id", 1)
        if type(padding) is not int or padding < 0:
            raise wrong("pad_token_id", path, padding, "a whole number")
        return super().read_config({**content, "first_position": padding + 1}, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        assert isinstance(config, RobertaConfig)
        content = super().write_config(config, objectives)
        content.pop("pooler", None)  # a classifier has one, and transformers creates one
        del content["first_position"]
        ends = {"bos_token_id": None, "eos_token_id": None}  # the tokenizer has these ids
        return {**content, **ends, "pad_token_id": config.first_position - 1}

    def foreign_names(self, config: BertConfig) -> Parts:
        pooler = {"pooler": pair("encoder.pooler.dense", f"{self.prefix}pooler.dense")}
        return {
            "encoder": self.encoder_names(config),
            **(pooler if config.pooler else {}),
            "masked_lm": masked_lm_names("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
        }

    def unknown(self, unused: Mapping[str, str], names: Collection[str]) -> list[str]:
        """Return the unused tensors that do not belong to other heads, without those of a pooler: a
        classifier may have one that it does not read."""
        unread = f"{self.prefix}pooler."
        found = super().unknown(unused, names)
        return [name for name in found if not name.startswith(unread)]

    def task_names(self, name: str, task: TaskConfig) -> list[ParameterMapping]:
        if task.kind not in ("classification", "regression"):
            return super().task_names(name, task)
        return [
            *pair("encoder.pooler.dense", "classifier.dense"),
            *pair(f"objectives.{name}.classifier", "classifier.out_proj"),
        ]


class XlmRobertaLayout(RobertaLayout):
    """XLM-R as transformers stores it."""

    title: ClassVar[str] = "XLM-R"
    classes: ClassVar[str] = "XLMRoberta"


class CamembertLayout(RobertaLayout):
    """CamemBERT as transformers stores it."""

    title: ClassVar[str] = "CamemBERT"
    classes: ClassVar[str] = "Camembert"
