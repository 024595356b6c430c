"""A coordinator's shard as a partition of one of Kafka's internal topics: read-only, by offset."""
