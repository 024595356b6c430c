"""Rules of the source: no I/O, no clock, no Spark."""
