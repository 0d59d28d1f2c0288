"""The encoder-decoder Transformer (Vaswani et al. 2017)."""
