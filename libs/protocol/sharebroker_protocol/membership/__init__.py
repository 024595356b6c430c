"""A consumer's membership of its share group: pure rules, driven by the client's background task."""
