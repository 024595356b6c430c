"""What the logs of a share group say of every offset, and what in them cannot be right. Pure."""
