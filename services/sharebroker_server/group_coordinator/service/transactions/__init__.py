"""RPCs of the transaction coordinator."""
