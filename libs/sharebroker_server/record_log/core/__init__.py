"""Rules of the record log, without I/O or clock; times are milliseconds since the Unix epoch."""
