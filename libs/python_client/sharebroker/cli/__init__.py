"""The command line: `sharebroker`."""

import os

# Before gRPC is imported: it warns on the terminal at every command that `work` starts otherwise.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from sharebroker.cli.app import main

__all__ = ["main"]
