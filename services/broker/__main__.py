"""`python -m services.broker`: the same as `sharebroker serve`."""

import typer

from services.broker.cli import serve

if __name__ == "__main__":
    typer.run(serve)
