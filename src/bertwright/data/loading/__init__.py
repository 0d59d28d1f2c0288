"""Instances -> the batches of each step, for any step of any epoch of any rank."""
