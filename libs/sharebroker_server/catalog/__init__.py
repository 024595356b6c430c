"""The catalog of topics and dynamic configs: its rules, its log, and each broker's metadata cache."""
