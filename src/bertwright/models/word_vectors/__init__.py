"""Tables of word vectors: word2vec, GloVe, fastText, and vectors that were read from a file."""
