"""Translate or parse texts with a trained model, and evaluate the results."""
