"""Translation models: the decoder that predicts the target of each."""

from __future__ import annotations

from bertwright.checkpoint.format import Format
from bertwright.config.runs.seq2seq import Seq2SeqConfig
from bertwright.config.runs.transformer import TransformerConfig
from bertwright.models.encoder import Encoder
from bertwright.models.seq2seq import AttentionalDecoder, Seq2Seq, Seq2SeqDecoder
from bertwright.models.transformer import Transformer, TransformerDecoder
from bertwright.objectives.translation import Translation


def _transformer_translation(config: TransformerConfig, encoder: Encoder) -> Translation:
    assert isinstance(encoder, Transformer)
    decoder = TransformerDecoder(config, encoder)
    return Translation(decoder, encoder.token_embedding(), config.label_smoothing)


def _seq2seq_translation(config: Seq2SeqConfig, encoder: Encoder) -> Translation:
    assert isinstance(encoder, Seq2Seq)
    kind = Seq2SeqDecoder if config.attention == "none" else AttentionalDecoder
    decoder = kind(config, encoder)
    return Translation(decoder, decoder.table, config.label_smoothing)


TRANSFORMER = Format(
    "transformer", TransformerConfig, Transformer, {"translation": _transformer_translation}
)
SEQ2SEQ = Format("seq2seq", Seq2SeqConfig, Seq2Seq, {"translation": _seq2seq_translation})
