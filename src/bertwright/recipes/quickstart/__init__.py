"""The quickstart: the whole way from text to a model on a small corpus."""
