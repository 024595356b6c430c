"""A worker: calls a handler for each record of a share group and acknowledges the record."""
