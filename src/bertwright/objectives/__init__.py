"""What teaches an encoder, and is thrown away after."""
