"""TensorFlow 1 checkpoints, read and written without TensorFlow."""
