"""How an encoder is used for a task: what of it learns, when and how fast; frozen features."""
