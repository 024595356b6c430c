"""Rules of the pipeline: no I/O, no clock, no Spark."""
