"""Training data: shards of token ids, training instances, masks and batches."""
