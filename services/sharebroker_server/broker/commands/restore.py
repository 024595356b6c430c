"""`sharebroker restore`: creates a data folder from a backup."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from sharebroker.cli.options import AsJson
from sharebroker_server.broker.commands.copying import copied, run_copy
from sharebroker_server.broker.defaults import DEFAULT_DATA

EXAMPLES: Final = (
    "sharebroker restore /backup/monday",
    "sharebroker restore /backup/monday --data /var/lib/sharebroker",
)


def restore(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the backup.")],
    data: Annotated[Path, typer.Option(help="A new or empty data folder.")] = DEFAULT_DATA,
    as_json: AsJson = False,
) -> None:
    """Create a data folder from a backup.

    An interrupted restore continues when the command is repeated; no server starts on the folder before.
    """
    from sharebroker_server.broker.backup import restore_backup  # not for the help

    run_copy(
        partial(restore_backup, source, data), "sharebroker restore", partial(copied, "Restored"), as_json
    )
