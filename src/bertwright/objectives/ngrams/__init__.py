"""The next token by tables of n-grams."""
