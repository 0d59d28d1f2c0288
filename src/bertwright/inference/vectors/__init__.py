"""Compute vectors of texts; write, whiten, compare and evaluate them."""
