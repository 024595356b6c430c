"""A model of the size of a cluster, the measurements that it needs, and a check of its predictions."""
