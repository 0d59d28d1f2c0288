"""Formats of models that no other library stores: under our own names."""
