"""Calls of gateways: fetches, acknowledgements, Deliver streams."""
