"""The page of a comparison: rows of results, what they say, tables and charts."""
