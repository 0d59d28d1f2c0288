"""Readers of sentences whose words have tags, and the schemes of tags."""
