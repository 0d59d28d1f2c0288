"""Reports for readers: pages of runs as single HTML files, and model cards."""
