"""Files to batches: shards of token ids, training instances, masks, batches."""
