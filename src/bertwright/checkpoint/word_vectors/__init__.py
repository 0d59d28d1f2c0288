"""Files of word vectors that other programs read and write."""
