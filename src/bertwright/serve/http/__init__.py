"""How a request reaches the application: its connection, head and body, and errors as replies."""
