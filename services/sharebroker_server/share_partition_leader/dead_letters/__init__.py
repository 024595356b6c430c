"""Dead letters: the records that a group could not process, as records of a dead letter topic."""
