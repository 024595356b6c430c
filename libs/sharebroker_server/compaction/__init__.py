"""Keeps a log of latest-value-a-key records short without a background job. Pure."""
