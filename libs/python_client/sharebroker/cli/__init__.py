"""The command line: `sharebroker`."""

import os
import sys

# Before gRPC is imported: it warns on the terminal at every command that `work` starts otherwise.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # its core tells of failed handshakes; we say what failed


def main() -> None:
    """Runs the command line; a probe without loading the rest, since health checks run it all the time."""
    if sys.argv[1:2] == ["probe"]:
        from sharebroker.cli.probe import probe

        sys.exit(probe(sys.argv[2:]))
    from sharebroker.cli.app import main as app

    app()


__all__ = ["main"]
