"""Durable facts about share groups as bytes."""
