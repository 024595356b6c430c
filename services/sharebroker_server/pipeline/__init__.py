"""The data pipeline on Spark: a queue's records as tables, and the queue's own state checked beside them."""
