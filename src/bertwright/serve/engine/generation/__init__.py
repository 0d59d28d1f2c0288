"""Text generation for many requests side by side, with whole or streamed replies."""
