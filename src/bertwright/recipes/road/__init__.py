"""Systems on the road to BERT: what pre-training must know of each."""
