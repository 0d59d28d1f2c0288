"""Texts of many scripts, with dirt, and tokenizers that know some of it; for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from bertwright.text.tokenizer.files import SPECIAL_TOKENS, BertRules
from bertwright.text.tokenizer.tokenizer import Tokenizer, make_tokenizer

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_OTHERS = "éüмир中国木\u1100\u1161\u11a8❤👩🚀あ"
VOCAB = [
    *SPECIAL_TOKENS.values(),
    *_LETTERS,
    *"ABCDE.,!?-()[]$。，",
    *_OTHERS,
    *("##" + letter for letter in _LETTERS + _OTHERS),
    *("the", "cat", "run", "##ning", "café", "cafe", "мир"),
]
UNCASED = make_tokenizer(VOCAB)
CASED = make_tokenizer(VOCAB, BertRules(lowercase=False))
TOKENIZERS: list[Tokenizer] = [UNCASED, CASED]

PARTS = st.sampled_from(
    [
        *[
            "the",
            "cat",
            "running",
            "café",
            "café",
            "İz",
            "мир",
            "中国",
            "木",
            "각",
            "❤️",
            "👩\u200d🚀",
            "!́",
            "[SEP]",
        ],
        *["a\xadb", "\u200b", "�", "ﬁ", "$5.20", ".", "，", "-", "́", "ḉ", "n", "A", "𠀀"],
        *("x" * 101, " ", " ", "\n", "\u3000"),
    ]
)
TEXTS = st.lists(PARTS, min_size=1, max_size=60).map("".join)
"""Never empty; may hold nothing that a tokenizer keeps."""
WORDS = st.lists(PARTS, max_size=40).map(tuple)
