"""What clients send, limited before it is parsed."""
