"""Backends that compute the layers of an encoder: plain PyTorch, packed weights, int8."""
