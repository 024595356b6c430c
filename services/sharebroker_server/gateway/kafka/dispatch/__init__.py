"""From request bytes to a handler and from its response to bytes."""
