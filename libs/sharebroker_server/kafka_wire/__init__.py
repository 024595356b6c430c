"""Kafka's wire protocol: message schemas, readers and writers for every version, frames."""
