"""Who may call which RPC: users and their authentication."""
