"""A translation model whose encoder is a BERT (Rothe, Narayan and Severyn 2020)."""
