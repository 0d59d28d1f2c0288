"""Translation models: the decoder that predicts the target of each."""

from __future__ import annotations

from bertwright.checkpoint.format import Format
from bertwright.config.runs.translation import Bert2RndConfig, Seq2SeqConfig, TransformerConfig
from bertwright.models.bert import Bert
from bertwright.models.encoder import Encoder
from bertwright.models.seq2seq import Seq2Seq, Seq2SeqDecoder
from bertwright.models.transformer import Transformer, TransformerDecoder
from bertwright.objectives.translation import Translation


def _transformer_translation(
    config: TransformerConfig | Bert2RndConfig, encoder: Encoder
) -> Translation:
    """A decoder that reads by the embeddings of the encoder, a Transformer or a BERT, and predicts
    by its token vectors."""
    assert isinstance(encoder, (Transformer, Bert))
    sizes = config.decoder if isinstance(config, Bert2RndConfig) else config
    decoder = TransformerDecoder(sizes, encoder.embeddings)
    return Translation(decoder, encoder.token_embedding(), config.label_smoothing)


def _seq2seq_translation(config: Seq2SeqConfig, encoder: Encoder) -> Translation:
    assert isinstance(encoder, Seq2Seq)
    decoder = Seq2SeqDecoder(config, encoder)
    return Translation(decoder, decoder.table, config.label_smoothing)


TRANSFORMER = Format(
    "transformer", TransformerConfig, Transformer, {"translation": _transformer_translation}
)
BERT2RND = Format("bert2rnd", Bert2RndConfig, Bert, {"translation": _transformer_translation})
SEQ2SEQ = Format("seq2seq", Seq2SeqConfig, Seq2Seq, {"translation": _seq2seq_translation})
