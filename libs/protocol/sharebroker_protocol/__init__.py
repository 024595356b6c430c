"""Code shared by client and server: stubs, errors, records, membership rules and trace context."""
