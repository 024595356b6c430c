"""RPCs of consumer groups."""
