"""Fine-tuning: train a checkpoint on labelled files, and write the model and its results."""
