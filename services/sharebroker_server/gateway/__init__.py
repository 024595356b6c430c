"""The door for clients: share sessions, streams of records, publishing, administration. Nothing durable."""
