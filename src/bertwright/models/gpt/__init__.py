"""GPT (Radford et al. 2018) and GPT-2 (Radford et al. 2019)."""
