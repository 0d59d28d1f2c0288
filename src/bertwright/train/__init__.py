"""The training loop and its parts, which do not depend on any model."""
