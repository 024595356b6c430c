"""The cluster's metadata: topics and settings, their rules, their log, and every process's view of it."""
