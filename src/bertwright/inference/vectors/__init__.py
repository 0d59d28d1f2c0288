"""Vectors of texts: to embed, write, whiten and compare them."""
