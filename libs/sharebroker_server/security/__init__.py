"""Access control: permissions, ACLs, audit, credentials of the cluster, and the authentication of clients."""
