"""Generation: a target is generated from a source by the encoder itself."""
