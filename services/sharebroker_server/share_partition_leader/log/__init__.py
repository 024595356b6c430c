"""Calls on record logs: append, fetch, retention."""
