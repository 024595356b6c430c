"""RPCs of share groups."""
