"""Multiple choice: which of several texts is right."""
