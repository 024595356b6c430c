"""The group coordinator's RPCs."""
