"""Layers that are not a Transformer's: LSTMs, a character CNN, a CRF and dropout."""
