"""One module per API key. Its `API` declares how dispatch serves it; ApiVersions lists it."""
