"""Reports for users: pages of runs as single HTML files, and model cards."""
