"""Translation models: the decoder that predicts the target of each."""

from __future__ import annotations

from bertwright.checkpoint.format import Format
from bertwright.config.runs.bert2rnd import Bert2RndConfig
from bertwright.config.runs.seq2seq import Seq2SeqConfig
from bertwright.config.runs.transformer import TransformerConfig
from bertwright.models.bert import Bert
from bertwright.models.encoder import Encoder
from bertwright.models.seq2seq import AttentionalDecoder, Seq2Seq, Seq2SeqDecoder
from bertwright.models.transformer import Transformer, TransformerDecoder
from bertwright.objectives.translation import Translation


def _transformer_translation(config: TransformerConfig, encoder: Encoder) -> Translation:
    assert isinstance(encoder, Transformer)
    decoder = TransformerDecoder(config, encoder.embeddings)
    return Translation(decoder, encoder.token_embedding(), config.label_smoothing)


def _bert_translation(config: Bert2RndConfig, encoder: Encoder) -> Translation:
    """The decoder reads by BERT's embeddings, and predicts by its token vectors."""
    assert isinstance(encoder, Bert)
    decoder = TransformerDecoder(config.decoder, encoder.embeddings)
    return Translation(decoder, encoder.token_embedding(), config.label_smoothing)


def _seq2seq_translation(config: Seq2SeqConfig, encoder: Encoder) -> Translation:
    assert isinstance(encoder, Seq2Seq)
    kind = Seq2SeqDecoder if config.attention == "none" else AttentionalDecoder
    decoder = kind(config, encoder)
    return Translation(decoder, decoder.table, config.label_smoothing)


TRANSFORMER = Format(
    "transformer", TransformerConfig, Transformer, {"translation": _transformer_translation}
)
BERT2RND = Format("bert2rnd", Bert2RndConfig, Bert, {"translation": _bert_translation})
SEQ2SEQ = Format("seq2seq", Seq2SeqConfig, Seq2Seq, {"translation": _seq2seq_translation})
