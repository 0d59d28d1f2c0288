"""Text that a server generates: many requests side by side, sent whole or as it comes."""
