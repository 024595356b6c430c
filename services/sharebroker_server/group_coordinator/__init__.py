"""Coordinates share groups: who is a member, who gets which partitions, which share state exists."""
