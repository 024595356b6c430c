"""Pure functions of forwarding."""
