"""Verification of stored share-group state."""
