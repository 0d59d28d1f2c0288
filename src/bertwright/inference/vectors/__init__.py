"""Compute vectors of texts, whiten and compare them; look up words in tables of vectors."""
