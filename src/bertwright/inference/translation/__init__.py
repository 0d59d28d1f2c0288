"""Translation: of texts by a trained model, and its evaluation."""
