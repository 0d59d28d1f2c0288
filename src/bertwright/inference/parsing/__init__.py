"""Parsing: of sentences by a trained model, and its evaluation."""
