"""Administration: cluster, topics, groups, internal topics and lag."""
