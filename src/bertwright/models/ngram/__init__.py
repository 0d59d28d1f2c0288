"""N-gram language models (Chen and Goodman 1998)."""
