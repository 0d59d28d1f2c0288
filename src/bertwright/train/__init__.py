"""The training loop and what it needs; nothing here knows a model."""
