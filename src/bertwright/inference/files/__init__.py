"""A file in, a file out: texts, vectors, predictions, perplexity, retrieval, pairs."""
