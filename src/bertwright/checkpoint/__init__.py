"""Folders to encoders and back."""
