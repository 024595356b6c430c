"""The command line: `sharebroker`."""

import gc
import os
import sys
from typing import Final

# Set before gRPC is imported: otherwise it prints a warning for each process that `work` starts.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # the commands report failed connections themselves

EXTRA: Final = ("rich", "typer")
"""The packages of the extra `cli`."""


def main() -> None:
    """Runs the command line. `probe` imports nothing else, because health checks run it often."""
    if sys.argv[1:2] == ["probe"]:
        from sharebroker.cli.commands.probe import probe

        sys.exit(probe(sys.argv[2:]))
    try:
        from sharebroker.cli.app import main as app
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        sys.exit("sharebroker: the command line needs more packages: pip install 'sharebroker[cli]'")
    try:
        app()
    finally:
        gc.freeze()  # skips the collections at exit, which take a tenth of a second


__all__ = ["main"]
