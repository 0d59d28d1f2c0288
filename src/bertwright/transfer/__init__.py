"""How an encoder is used for a task: what of it is trained, when and how fast; frozen features."""
