"""The parts of Transformers: attention, its cache, embeddings, layers and their stack."""
