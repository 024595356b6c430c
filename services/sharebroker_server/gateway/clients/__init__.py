"""Outbound calls to leaders and coordinators: find the owner, call it, retry where it moved."""
