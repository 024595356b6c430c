"""`sharebroker import`: writes the topics and groups of an archive into a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sharebroker.cli.options import AsJson, settings
from sharebroker.cli.output import amount
from sharebroker_server.broker.commands.archive_options import (
    Data,
    Groups,
    Properties,
    Redis,
    Topics,
    stored_in,
)
from sharebroker_server.broker.commands.copying import OFFSETS, Done, run_copy
from sharebroker_server.broker.defaults import DEFAULT_DATA

if TYPE_CHECKING:
    from sharebroker_server.broker.archive.importing import Imported

EXAMPLES: Final = (
    "sharebroker import /archive/monday --data /var/lib/sharebroker-new",
    "sharebroker import /archive/monday --topic orders --rename orders=orders-2025",
    "sharebroker import /archive/monday --redis redis://127.0.0.1:6379 --skip-existing --json",
)


def import_(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the archive.")],
    topic: Topics = None,
    group: Groups = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Another name for a topic of the archive; may be repeated."),
    ] = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave out topics that exist, instead of failing.")
    ] = False,
    data: Data = DEFAULT_DATA,
    redis: Redis = None,
    max_memory: Annotated[
        str | None, typer.Option(help="Memory of the embedded Valkey during the import, as in `serve`.")
    ] = None,
    set_: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Write the topics and groups of an archive into a cluster.

    The cluster may serve. An interrupted import continues when the command is repeated.
    """
    # The help needs none of these modules.
    from sharebroker_server.broker.archive.importing import import_archive
    from sharebroker_server.broker.core.archive_selection import Selection
    from sharebroker_server.broker.core.archive_topics import Choices

    choices = Choices(Selection(topic or (), group or ()), settings(rename, "--rename"), skip_existing)
    run_copy(
        lambda begin: import_archive(stored_in(data, redis, set_, max_memory), source, choices, begin),
        "sharebroker import",
        imported,
        as_json,
        OFFSETS,
    )


def imported(result: Imported) -> Done:
    """Describes a complete import."""
    skipped = f" Left out because they exist: {', '.join(result.skipped)}." if result.skipped else ""
    return Done(
        {**result._asdict(), "skipped": [*result.skipped]},
        f"Imported {amount(result.records, 'record')} of {amount(result.topics, 'topic')}, "
        f"and {amount(result.groups, 'group')}.{skipped}",
    )
