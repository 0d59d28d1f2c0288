"""Runs of word2vec, GloVe and fastText: what they read, and the kernels that train them."""
