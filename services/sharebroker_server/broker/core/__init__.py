"""Rules of the broker."""
