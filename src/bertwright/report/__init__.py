"""The page of a run: one HTML file with its curves, tables and examples."""
