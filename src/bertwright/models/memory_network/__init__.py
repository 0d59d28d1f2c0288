"""End-to-end memory networks (Sukhbaatar et al. 2015)."""
