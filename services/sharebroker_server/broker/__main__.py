"""`python -m sharebroker_server.broker`: the same as `sharebroker serve`."""

import typer

from sharebroker.cli import stdio
from sharebroker_server.broker.commands.serve import serve

if __name__ == "__main__":
    stdio.fill()
    typer.run(serve)
