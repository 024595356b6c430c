"""The main job of `make run`: the flights of a year, worked off by a fleet of processes of which one dies."""

import os

# Before gRPC is imported: it warns on the terminal at every process we start otherwise.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
