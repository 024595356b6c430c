"""Acknowledgements: one per record in the application, ack batches on the wire."""
