"""Parallel text, such as two files whose lines translate each other: its shards and batches."""
