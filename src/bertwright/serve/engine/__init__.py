"""The models of a server: loading them, what runs them, and what they compute."""
