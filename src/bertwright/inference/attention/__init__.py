"""What attends to what: maps of a text, measures over many, heads that follow syntax."""
