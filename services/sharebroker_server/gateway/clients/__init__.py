"""Outbound calls: to leaders, to coordinators; who owns what is looked up, and asked again when it moved."""
