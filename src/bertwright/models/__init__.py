"""The models from n-grams to BERT: one folder per system, each after its paper."""
