"""The rules of share groups. No I/O."""
