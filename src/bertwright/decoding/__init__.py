"""Sampling, beam search and the text of generated tokens, for any model that computes logits of the
next token."""
