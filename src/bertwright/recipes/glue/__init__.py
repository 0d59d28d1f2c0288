"""The GLUE benchmark."""
