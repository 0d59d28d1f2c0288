"""Tensors to tensors: bricks that know no system."""
