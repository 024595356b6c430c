"""Rules of the share coordinator, without I/O: commands in, records and replies out."""
