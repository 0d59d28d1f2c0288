"""A file becomes rows with named columns: bytes, lines, tables, JSON and Parquet."""
