"""Fine-tuning: labelled files in, a model with its figures out."""
