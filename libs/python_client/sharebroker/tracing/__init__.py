"""Tracing of applications and the command line: processing spans, and a record's history from its spans."""
