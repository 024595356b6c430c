"""Rules of the client: versions, authentication, fetch sessions, metadata."""
