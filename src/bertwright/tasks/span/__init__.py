"""Extractive question answering: the answer is a slice of a passage."""
