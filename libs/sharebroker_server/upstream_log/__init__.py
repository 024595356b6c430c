"""Logs of partitions that another Kafka cluster owns."""
