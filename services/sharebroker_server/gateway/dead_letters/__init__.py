"""Reads, redrives and discards dead letters."""
