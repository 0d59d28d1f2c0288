"""Connect a tokenizer with an encoder that reads characters, so that no word becomes [UNK]."""

from __future__ import annotations

from bertwright.nn.encoder import Encoder, SpellsWords
from bertwright.text.tokenizer.tokenizer import Tokenizer


def spell_unknown_words(tokenizer: Tokenizer, encoder: Encoder) -> Tokenizer:
    """Return a tokenizer that gives words outside the vocabulary ids that the encoder reads.

    Several encoders of the same model may be connected with one tokenizer. For an encoder that does
    not compute vectors from characters, it is the tokenizer itself.
    """
    if not isinstance(encoder, SpellsWords):
        return tokenizer
    if tokenizer.further_words is None:
        tokenizer = tokenizer.spelling(encoder.spec.vocab_size, encoder.can_spell)
    encoder.further_words = tokenizer.further_words
    return tokenizer
