"""Read models from the Hugging Face hub and write them there."""
