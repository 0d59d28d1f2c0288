"""The JSON of requests and replies, as pydantic models."""
