"""The kinds of tasks of a fine-tuned model: one file for each kind, and the code they share."""
