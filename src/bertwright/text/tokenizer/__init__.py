"""Tokenizers: normalization, WordPiece and its trainer, words, files."""
