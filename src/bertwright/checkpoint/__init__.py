"""Load models from folders and save them there."""
