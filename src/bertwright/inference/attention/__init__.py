"""Attention maps of a text, measures of attention heads, and heads that follow the syntax."""
