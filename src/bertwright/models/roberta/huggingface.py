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

from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.huggingface import BertLayout, Names
from bertwright.models.roberta.config import RobertaConfig
from bertwright.storage.model_folder import wrong


class RobertaLayout(BertLayout):
    """RoBERTa as transformers stores it."""

    title: ClassVar[str] = "RoBERTa"
    classes: ClassVar[str] = "Roberta"
    prefix: ClassVar[str] = "roberta."
    pooler: ClassVar[Names] = {"dense": "roberta.pooler.dense"}
    objectives: ClassVar[Mapping[str, Names]] = {
        "masked_lm": {
            "transform": "lm_head.dense",
            "norm": "lm_head.layer_norm",
            "bias": "lm_head.bias",
        },
    }
    decoder: ClassVar[str] = "lm_head.decoder"
    task_poolers: ClassVar[Mapping[str, Names]] = {
        "classification": {"dense": "classifier.dense"},
        "regression": {"dense": "classifier.dense"},
    }
    task_scores: ClassVar[Mapping[str, str]] = {
        "classification": "classifier.out_proj",
        "regression": "classifier.out_proj",
    }
    unread: ClassVar[tuple[str, ...]] = ("roberta.pooler.",)  # a classifier may have one unused
    unwritten: ClassVar[Collection[str]] = ("pooler", "first_position")
    heads: ClassVar[tuple[str, ...]] = ("lm_head.", "classifier.", "qa_outputs.")
    dropout_keys: ClassVar[Mapping[str, str]] = {
        kind: key for kind, key in BertLayout.dropout_keys.items() if kind != "multiple-choice"
    }

    def read_config(self, content: Mapping[str, Any], path: Path) -> BertConfig:
        padding = content.get("pad_token_id", 1)
        if type(padding) is not int or padding < 0:
            raise wrong("pad_token_id", path, padding, "a whole number")
        return super().read_config({**content, "first_position": padding + 1}, path)

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        assert isinstance(config, RobertaConfig)
        content = super().write_config(config, objectives)
        ends = {"bos_token_id": None, "eos_token_id": None}  # the tokenizer has these ids
        return {**content, **ends, "pad_token_id": config.first_position - 1}


class XlmRobertaLayout(RobertaLayout):
    """XLM-R as transformers stores it."""

    title: ClassVar[str] = "XLM-R"
    classes: ClassVar[str] = "XLMRoberta"


class CamembertLayout(RobertaLayout):
    """CamemBERT as transformers stores it."""

    title: ClassVar[str] = "CamemBERT"
    classes: ClassVar[str] = "Camembert"
