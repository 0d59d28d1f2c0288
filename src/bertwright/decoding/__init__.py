"""Sampling, beam search and growing texts, over anything that gives the next token's logits."""
