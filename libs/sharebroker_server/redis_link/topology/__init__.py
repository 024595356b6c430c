"""Redis URLs, Sentinel and Cluster."""
