"""Share sessions, validation and credit. Pure: knows no tasks, no messages of the wire, no clock."""
