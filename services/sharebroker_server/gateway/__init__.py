"""Terminates client connections: share sessions, streams, publishing, administration. Stores nothing."""
