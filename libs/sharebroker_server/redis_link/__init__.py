"""Redis as this project uses it: one pipelined connection, scripts, key names, an embedded server."""
