"""Translation models: what they train on, and their use."""
