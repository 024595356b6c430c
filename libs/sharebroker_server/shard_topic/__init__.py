"""The logs of coordinator shards as partitions of Kafka's internal topics: read-only, by offset."""
