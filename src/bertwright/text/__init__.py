"""Strings to ids: corpora, cleaning, sentences and tokenizers; nothing here imports torch."""
