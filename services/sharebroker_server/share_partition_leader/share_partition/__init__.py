"""A share-partition on its leader: state machine, state writes, listeners."""
