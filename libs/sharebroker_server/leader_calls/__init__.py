"""The calls that gateways make to share-partition leaders, as plain values."""
