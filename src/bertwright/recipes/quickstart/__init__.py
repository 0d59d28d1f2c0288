"""The quickstart: all steps from text to a fine-tuned model, on a small corpus."""
