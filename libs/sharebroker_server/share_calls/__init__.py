"""What gateways ask of share-partition leaders on every fetch, as plain values."""
