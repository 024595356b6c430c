"""Requests about topics of the upstream cluster that are passed to it (`serve --proxy`)."""
