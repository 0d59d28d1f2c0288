"""Parallel text: two files whose lines translate each other, as shards and as batches."""
