"""Configuration properties: names, types, defaults, limits and meaning."""
