"""Acknowledgements: one a record for the application, runs of offsets on the wire."""
