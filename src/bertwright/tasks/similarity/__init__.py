"""Similarity: sentence vectors whose cosine says how similar two texts are."""
