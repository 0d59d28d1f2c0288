"""RoBERTa, XLM-R and CamemBERT: BERT's layers, with positions that begin later.

Liu et al. 2019, section 3. Position 0 is the row `first_position` of the table, which is 2 as
published: the rows before it are for padding, which we do not have. There is one segment; a pair is
`<s> A </s></s> B </s>`. The pooler is the dense layer with tanh over `<s>` that transformers stores
with the head of a classifier. In transformers:

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
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from bertwright.data.shards import Shards
from bertwright.models.bert.config import BertConfig
from bertwright.models.bert.encoder import Bert, BertEmbeddings, bert_spec
from bertwright.models.bert.huggingface import (
    CLASSIFIER_POOLERS,
    CLASSIFIER_SCORES,
    LM_HEAD,
    BertLayout,
    Names,
)
from bertwright.models.bert.masked_lm import MaskedLM
from bertwright.models.bert.system import BERT, without_unread_pooler
from bertwright.models.catalogue import MODELS
from bertwright.models.roberta.config import RobertaConfig, RobertaRun
from bertwright.models.system import RunSources, System
from bertwright.storage.model_folder import wrong


class RobertaEmbeddings(BertEmbeddings):
    """The sum of token, position and segment embeddings, normalized."""

    def __init__(self, config: RobertaConfig) -> None:
        super().__init__(config)
        self.first_position = config.first_position

    @property
    def position_vectors(self) -> Tensor:
        return self.position.weight[self.first_position :]

    def sum(self, ids: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        return super().sum(ids, positions + self.first_position, segments)


class Roberta(Bert):
    """The encoder of RoBERTa."""

    def make_embeddings(self, config: RobertaConfig) -> BertEmbeddings:
        return RobertaEmbeddings(config)


class RobertaLayout(BertLayout):
    """RoBERTa as transformers stores it."""

    title: ClassVar[str] = "RoBERTa"
    classes: ClassVar[str] = "Roberta"
    prefix: ClassVar[str] = "roberta."
    pooler: ClassVar[Names] = {"dense": "roberta.pooler.dense"}
    objectives: ClassVar[Mapping[str, Names]] = LM_HEAD
    decoder: ClassVar[str] = "lm_head.decoder"
    task_poolers: ClassVar[Mapping[str, Names]] = CLASSIFIER_POOLERS
    task_scores: ClassVar[Mapping[str, str]] = CLASSIFIER_SCORES
    unread: ClassVar[tuple[str, ...]] = ("roberta.pooler.",)  # a classifier may have one unused
    constants: ClassVar[Mapping[str, Any]] = {
        **BertLayout.constants,
        "bos_token_id": None,  # the tokenizer has these ids
        "eos_token_id": None,
    }
    unwritten: ClassVar[Collection[str]] = ("pooler", "first_position")
    heads: ClassVar[tuple[str, ...]] = ("lm_head.", "classifier.", "qa_outputs.")
    dropout_keys: ClassVar[Mapping[str, str]] = {
        kind: key for kind, key in BertLayout.dropout_keys.items() if kind != "multiple-choice"
    }

    def derived_fields(self, content: Mapping[str, Any], path: Path) -> dict[str, Any]:
        padding = content.get("pad_token_id", 1)
        if type(padding) is not int or padding < 0:
            raise wrong("pad_token_id", path, padding, "a whole number")
        return {"first_position": padding + 1}

    def write_config(self, config: BertConfig, objectives: frozenset[str]) -> dict[str, Any]:
        assert isinstance(config, RobertaConfig)
        content = super().write_config(config, objectives)
        return {**content, "pad_token_id": config.first_position - 1}


class XlmRobertaLayout(RobertaLayout):
    """XLM-R as transformers stores it."""

    title: ClassVar[str] = "XLM-R"
    classes: ClassVar[str] = "XLMRoberta"


class CamembertLayout(RobertaLayout):
    """CamemBERT as transformers stores it."""

    title: ClassVar[str] = "CamemBERT"
    classes: ClassVar[str] = "Camembert"


def new_model(run: RobertaRun, shards: Shards, sources: RunSources) -> RobertaConfig:
    """Return the configuration of a new model, whose positions begin after the row of the padding
    token's id.
    """
    config: RobertaConfig = without_unread_pooler(run, shards, sources)
    return replace(config, first_position=shards.special_id("pad") + 1)


ROBERTA = replace(
    BERT,
    row=MODELS["roberta"],
    encoder=Roberta,
    objectives={"masked_lm": MaskedLM},
    layout=RobertaLayout,
    layouts={},
    model=new_model,
)
XLM_ROBERTA = System(
    row=MODELS["xlm-roberta"],
    encoder=Roberta,
    spec=bert_spec,
    objectives={"masked_lm": MaskedLM},
    layout=XlmRobertaLayout,
    is_padded=True,
    vocabulary=BERT.vocabulary,
)
CAMEMBERT = replace(XLM_ROBERTA, row=MODELS["camembert"], layout=CamembertLayout)
