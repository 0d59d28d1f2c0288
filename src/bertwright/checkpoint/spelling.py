"""Connect a tokenizer with an encoder that spells words, so that no word is [UNK]."""

from __future__ import annotations

from bertwright.nn.encoder import Encoder, SpellsWords
from bertwright.text.tokenizer.tokenizer import Tokenizer


def spell_unknown_words(tokenizer: Tokenizer, encoder: Encoder) -> None:
    """Let an encoder that computes vectors from characters read the words outside the vocabulary.

    Further encoders of the same model may be connected with the same tokenizer. For other encoders,
    nothing changes.
    """
    if not isinstance(encoder, SpellsWords):
        return
    words = tokenizer.further_words
    if words is None:
        words = tokenizer.spell_unknown(encoder.spec.vocab_size, encoder.can_spell)
    encoder.further_words = words
