"""`sharebroker export`: writes topics, groups and their share state into an archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sharebroker.cli.options import AsJson
from sharebroker.cli.output import amount, readable_time
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
    from sharebroker_server.broker.core.archive_contents import ArchiveContents

EXAMPLES: Final = (
    "sharebroker export /archive/monday",
    "sharebroker export /archive/orders --topic 'orders*' --group billing --data /var/lib/sharebroker",
    "sharebroker export /archive/monday --redis redis://127.0.0.1:6379 --json",
)


def export(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder for the archive.")],
    topic: Topics = None,
    group: Groups = None,
    data: Data = DEFAULT_DATA,
    redis: Redis = None,
    set_: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Write topics, groups and their share state into an archive.

    The cluster may serve. An interrupted export continues when the command is repeated.
    """
    # The help needs none of these modules.
    from sharebroker_server.broker.archive.exporting import export_archive
    from sharebroker_server.broker.core.archive_selection import Selection

    selection = Selection(topic or (), group or ())
    run_copy(
        lambda begin: export_archive(stored_in(data, redis, set_), target, selection, begin),
        "sharebroker export",
        exported,
        as_json,
        OFFSETS,
    )


def exported(contents: ArchiveContents) -> Done:
    """Describes a complete archive."""
    head = contents.head
    return Done(
        {
            "archive_id": head.archive_id,
            "topics": head.topics,
            "groups": head.groups,
            "records": contents.records,
            "bytes": contents.size,
            "begun_at": head.begun_at,
        },
        f"Exported {amount(contents.records, 'record')} of {amount(head.topics, 'topic')}, and "
        f"{amount(head.groups, 'group')} as of {readable_time(head.begun_at)}, in {contents.size:,} bytes.",
    )
