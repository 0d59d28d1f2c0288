"""What the page of a run shows of what its model has learned, one file a system."""
