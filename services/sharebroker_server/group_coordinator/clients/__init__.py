"""What the group coordinator asks of others."""
