"""Functions that carry out whole runs, and published configurations as TOML files."""
