"""What client and server share: stubs, errors, records, membership rules and trace context."""
