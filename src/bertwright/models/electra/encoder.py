"""The encoder of ELECTRA: BERT's layers over embeddings that may have another width.

Clark et al. 2020, section 3. Where the width of the embeddings differs from that of the layers, a
linear layer projects them. The pooler is the dense layer with GELU over [CLS] that transformers
stores with the head of a classifier.
"""

from __future__ import annotations

from typing import ClassVar

from bertwright.models.bert.encoder import Bert


class Electra(Bert):
    """The encoder of ELECTRA."""

    pooler_activation: ClassVar[str] = "gelu"
