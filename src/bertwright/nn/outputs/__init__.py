"""Output layers over the vocabulary, and the losses that several systems share."""
