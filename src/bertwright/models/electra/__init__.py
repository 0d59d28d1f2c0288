"""ELECTRA (Clark et al. 2020)."""
