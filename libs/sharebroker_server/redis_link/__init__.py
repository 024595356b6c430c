"""Access to Redis: the pipelined link, its topologies, Lua scripts, key names, and the embedded server."""
