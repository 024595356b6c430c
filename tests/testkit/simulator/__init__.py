"""Runs a whole cluster in one deterministic event loop: one seed yields one run, byte for byte."""
