"""One module an API key; its `API` says how it is served, and ApiVersions tells clients of it."""
