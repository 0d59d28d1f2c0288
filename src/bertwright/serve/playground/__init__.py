"""The playground: one static page that asks the server's routes."""
