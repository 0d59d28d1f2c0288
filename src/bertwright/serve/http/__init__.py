"""Between the socket and the routes: connections, admission, bodies and errors."""
