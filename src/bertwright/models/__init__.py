"""The lineage: one file a system, each by its paper."""
