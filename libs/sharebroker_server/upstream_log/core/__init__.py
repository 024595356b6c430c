"""Rules of logs that another cluster owns, without I/O."""
