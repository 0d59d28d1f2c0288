"""The HTTP server, which batches the texts of many requests and serves every head; and a client."""
