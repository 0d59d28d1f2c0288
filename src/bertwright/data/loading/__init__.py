"""Loading: makes the batches of any step of any epoch, for any rank, from instances."""
