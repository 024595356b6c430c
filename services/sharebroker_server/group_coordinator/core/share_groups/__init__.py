"""Rules of share groups. No I/O."""
