"""The example of `make run`: several worker processes process a year of flights, and one of them fails."""

import os

# Set before gRPC is imported: otherwise gRPC prints a warning for each child process.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
