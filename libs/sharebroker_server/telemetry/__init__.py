"""What a process tells of itself: metrics, and whether it is well."""
