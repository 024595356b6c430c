"""Who may call which RPC: the permission of each RPC, and the credentials of the cluster's processes."""
