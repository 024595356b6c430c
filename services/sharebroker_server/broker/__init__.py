"""Composes roles into one process: the one place that imports several services."""

import os

# gRPC's hooks for fork() get in the way of starting the embedded Valkey, and complain about it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
# Its core has a line of its own form on standard error for each handshake that fails, whoever knocks.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
