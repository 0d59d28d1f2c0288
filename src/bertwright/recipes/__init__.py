"""Whole runs: functions that do one, and published configurations as TOML files."""
