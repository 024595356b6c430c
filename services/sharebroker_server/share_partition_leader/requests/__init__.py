"""The calls of gateways to a leader: fetches, acknowledgements, reconciliations, delivery streams."""
