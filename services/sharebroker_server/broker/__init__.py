"""Composes roles into one process. This is the only package that imports several services."""

import os

# gRPC's fork() handlers interfere with the start of the embedded Valkey, and log warnings.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
# gRPC's core writes a line that is not JSON to standard error for each failed handshake.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
