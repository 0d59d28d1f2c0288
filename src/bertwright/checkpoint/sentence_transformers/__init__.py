"""sentence-transformers folders, read and written."""
