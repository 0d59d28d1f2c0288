"""Requests and replies: their schemas, how a request is prepared, and how a reply is made."""
