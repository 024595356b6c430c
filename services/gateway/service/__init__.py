"""The gRPC edge: one file a concern, short methods; the rules are in core."""
