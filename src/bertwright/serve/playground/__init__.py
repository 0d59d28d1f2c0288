"""The playground: one static page that calls the server's routes."""
