"""The neural probabilistic language model (Bengio et al. 2003)."""
