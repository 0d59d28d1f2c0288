"""Classification and regression of texts and of pairs of texts."""
