"""The kinds of tasks of a fine-tuned model: one folder for each kind, and the code they share."""
