"""The runs of each system: its keys beside those of `config/run.py`, its sizes, its presets."""
