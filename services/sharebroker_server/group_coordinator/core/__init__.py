"""Rules of the group coordinator: share groups, consumer groups, transactions. No I/O."""
