"""A model of Sharebroker's guarantees that verifies a history of events, independently of the system."""
