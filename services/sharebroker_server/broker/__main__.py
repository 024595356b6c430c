"""`python -m sharebroker_server.broker`: the same as `sharebroker serve`."""

import typer

from sharebroker.cli.output import replace_closed_streams
from sharebroker_server.broker.commands.serve import serve

if __name__ == "__main__":
    replace_closed_streams()
    typer.run(serve)
