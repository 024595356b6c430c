"""Rules of the share coordinator: plain values in, records and replies out."""
