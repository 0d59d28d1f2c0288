"""The lineage: one file a system, each told by its paper."""
