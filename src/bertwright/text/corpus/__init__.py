"""Reading a corpus: files, rows, documents, cleaning, duplicates."""
