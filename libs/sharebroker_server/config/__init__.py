"""Kafka properties: names, types, defaults, bounds, meaning; parsed and resolved. Pure."""
