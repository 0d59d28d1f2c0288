"""ELMo (Peters et al. 2018), and the forward language model of TagLM (Peters et al. 2017)."""
