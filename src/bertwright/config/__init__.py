"""Frozen values that describe a run; nothing here imports more than the standard library."""
