"""The encoder of DistilBERT: half of BERT's layers, without segments.

Sanh et al. 2019, section 3. The model has no pooler over [CLS] as BERT has. A classifier has a
dense layer with ReLU in its place (`pre_classifier`), which is our pooler.
"""

from __future__ import annotations

from typing import ClassVar

from bertwright.models.bert.encoder import Bert


class DistilBert(Bert):
    """The encoder of DistilBERT."""

    pooler_activation: ClassVar[str] = "relu"
