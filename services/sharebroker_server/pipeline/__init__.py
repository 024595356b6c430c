"""A data pipeline on Spark: a queue's records as tables, and a verification of the queue's state."""
