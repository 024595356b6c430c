"""A Valkey server run as a child process."""
