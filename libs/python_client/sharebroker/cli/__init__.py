"""The command line: `sharebroker`."""

from sharebroker.cli.app import main

__all__ = ["main"]
