"""Records as the application sees them, and the record batches they travel in (Kafka's format, magic 2)."""
