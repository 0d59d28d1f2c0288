"""Models behind HTTP: batches of many callers' texts, every head, and a client."""
