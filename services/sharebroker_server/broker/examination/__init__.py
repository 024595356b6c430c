"""What `sharebroker doctor` reads about a cluster; `core` has the rules for its findings."""
