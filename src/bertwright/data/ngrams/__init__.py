"""N-grams of a built corpus, counted in bounded memory."""
