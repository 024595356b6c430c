"""`python -m services.broker`: the same as `sharebroker serve`."""

import typer

from services.broker.cli import serve
from sharebroker.cli import standard

if __name__ == "__main__":
    standard.fill()
    typer.run(serve)
