"""Using trained models: vectors of texts, blanks filled, tasks predicted."""
