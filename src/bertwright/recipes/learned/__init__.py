"""Examine what a model has learned, for the page of its run; a file for each kind of system."""
