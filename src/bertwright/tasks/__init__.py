"""What a pre-trained model is used for: one file for each kind of task, and what they share."""
