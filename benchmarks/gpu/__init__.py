"""What a GPU is asked in one call: `python -m benchmarks.gpu`."""
