"""Labelled files that are tables: their rows, columns, quotes and labels."""
