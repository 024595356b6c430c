"""The inbound side: one short method a call."""
