"""One vector a word: looked up, compared, evaluated."""
