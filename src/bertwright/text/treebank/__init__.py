"""Treebanks: bracketed trees, and words with their heads."""
