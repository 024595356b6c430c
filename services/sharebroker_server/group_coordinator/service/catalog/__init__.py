"""RPCs of the catalog."""
