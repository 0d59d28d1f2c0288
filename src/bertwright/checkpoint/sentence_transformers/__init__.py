"""Read and write folders of sentence-transformers."""
