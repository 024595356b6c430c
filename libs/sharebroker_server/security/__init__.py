"""Access control: permissions of RPCs, users and their authentication, credentials of the cluster."""
