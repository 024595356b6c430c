"""`sharebroker backup`: copies a data folder while its server runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from sharebroker.cli.options import AsJson
from sharebroker_server.broker.commands.copying import copied, run_copy
from sharebroker_server.broker.defaults import DEFAULT_DATA

EXAMPLES: Final = (
    "sharebroker backup /backup/monday",
    "sharebroker backup /backup/monday --data /var/lib/sharebroker --json",
)


def backup(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder for the backup.")],
    data: Annotated[
        Path, typer.Option(help="Data folder of a server with an embedded Valkey, which may run.")
    ] = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Copy a data folder while its server runs.

    An interrupted backup continues when the command is repeated. The copy contains credentials.
    """
    from sharebroker_server.broker.backup import take_backup  # not for the help

    run_copy(partial(take_backup, data, target), "sharebroker backup", partial(copied, "Backed up"), as_json)
