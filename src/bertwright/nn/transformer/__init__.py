"""What Transformers are made of: attention, its cache, embeddings, layers and their stack."""
