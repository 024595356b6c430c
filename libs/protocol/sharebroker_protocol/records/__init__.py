"""Records, and the record batches that carry them (Kafka's format, magic 2)."""
