"""Sampling, beam search and the text of generated tokens, over any model that gives logits of the
next token."""
