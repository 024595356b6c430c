"""The cluster as Kafka clients see it: brokers, leaders, replicas."""
