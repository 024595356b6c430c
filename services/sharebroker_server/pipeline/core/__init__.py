"""Rules of the pipeline, without I/O, clock or Spark."""
