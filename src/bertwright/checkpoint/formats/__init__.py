"""Stored formats of models: their files, headers and tensors."""
