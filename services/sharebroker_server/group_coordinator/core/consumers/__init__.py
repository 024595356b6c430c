"""Consumer groups of Kafka's classic protocol: members in memory, committed offsets in the log."""
