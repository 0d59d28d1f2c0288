"""Tables with one vector for each word: look up, compare and evaluate the vectors."""
