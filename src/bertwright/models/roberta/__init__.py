"""RoBERTa, XLM-R and CamemBERT (Liu et al. 2019; Conneau et al. 2020; Martin et al. 2020)."""
