"""Connect a tokenizer with an encoder that reads characters, so that no word becomes [UNK]."""

from __future__ import annotations

from bertwright.nn.encoder import Encoder, SpellsWords
from bertwright.text.tokenizer.tokenizer import Tokenizer


def spell_unknown_words(tokenizer: Tokenizer, encoder: Encoder) -> None:
    """Let an encoder that computes vectors from characters read words outside the vocabulary.

    Several encoders of the same model may be connected with one tokenizer. Encoders of any other
    kind are left as they are.
    """
    if not isinstance(encoder, SpellsWords):
        return
    words = tokenizer.further_words
    if words is None:
        words = tokenizer.spell_unknown(encoder.spec.vocab_size, encoder.can_spell)
    encoder.further_words = words
