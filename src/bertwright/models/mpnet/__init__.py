"""MPNet (Song et al. 2020)."""
