"""Tracing of applications and the command line: spans of processing, a record's history from its spans."""
