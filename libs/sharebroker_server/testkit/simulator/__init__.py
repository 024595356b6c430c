"""A whole system in one deterministic event loop: one seed gives one run, to the byte."""
