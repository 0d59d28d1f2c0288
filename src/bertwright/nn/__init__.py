"""Interfaces, layers and losses that all systems share; none of them depends on a system."""
