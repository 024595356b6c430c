"""Rules of the source, without I/O, clock or Spark."""
