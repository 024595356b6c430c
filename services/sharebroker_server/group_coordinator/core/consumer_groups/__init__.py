"""Rules of consumer groups (the classic protocol) and of their committed offsets. No I/O."""
