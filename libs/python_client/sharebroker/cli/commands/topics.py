"""`sharebroker topics`: manages topics."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group as Stack
from rich.console import RenderableType

import sharebroker
from sharebroker.admin_model import EARLIEST, LATEST, TopicDescription
from sharebroker.cli.live import Watch, watch
from sharebroker.cli.options import (
    DEFAULT_SERVER,
    MOST,
    AsJson,
    Partition,
    Server,
    Topic,
    Unset,
    changes,
    examples,
    settings,
)
from sharebroker.cli.output import (
    amount,
    columns,
    facts_view,
    print_done,
    print_json,
    print_notice,
    print_rows,
    table,
)
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition

if TYPE_CHECKING:
    from sharebroker.blocking.admin import Admin

Offsets = Mapping[TopicPartition, int | None]

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, change and delete topics.")

_TOPIC_COLUMNS: Final = columns("name TOPIC", "partitions#", "topic_id ID", "configs CONFIG")
_PARTITION_COLUMNS: Final = columns(
    "partition#", "start_offset# START", "end_offset# END", "records#", "bytes#"
)
_SETTING_COLUMNS: Final = columns("name PROPERTY", "value", "set")

Config = Annotated[
    list[str] | None,
    typer.Option(
        "--config", "-c", help="A property to set, as key=value with Kafka's name; may be repeated."
    ),
]


@app.command(
    epilog=examples(
        "sharebroker topics create orders --partitions 8",
        "sharebroker topics create orders -c retention.ms=3600000 -c retention.policy=consumed",
    )
)
def create(
    name: Topic,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions",
            "-p",
            min=0,
            max=MOST,
            help="The number of partitions; 0 means the server's num.partitions.",
        ),
    ] = 0,
    config: Config = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    configs = settings(config, "--config")
    with sharebroker.Admin(server) as admin:
        created = admin.create_topic(name, partitions, configs)
    size = amount(created.partitions, "partition")
    print_done(topic_row(created), as_json, f"Created topic {name} with {size}.")


@app.command(name="list", epilog=examples("sharebroker topics list", "sharebroker topics list --json"))
def list_(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the topics."""
    with sharebroker.Admin(server) as admin:
        rows = [topic_row(topic) for topic in admin.list_topics()]
    print_rows(
        rows, _TOPIC_COLUMNS, as_json, "There are no topics. Create one: sharebroker topics create NAME"
    )


@app.command(
    epilog=examples("sharebroker topics describe orders", "sharebroker topics describe orders --watch 2")
)
def describe(
    name: Topic, every: Watch = None, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a topic: its effective settings, and the offsets and bytes of each partition.

    BYTES is the size of the record batches as they are stored. SET is yes for a property that is set for this
    topic, and no for a default.
    """
    watch(every, as_json, lambda: _described(server, name), _description_view)


def _described(server: str, name: str) -> dict[str, Any]:
    with sharebroker.Admin(server) as admin:
        topic = admin.describe_topic(name)
        settings = _settings(admin, name)
        partitions = [TopicPartition(name, number) for number in range(topic.partitions)]
        starts = admin.list_offsets(partitions, EARLIEST)
        ends = admin.list_offsets(partitions, LATEST)
        sizes = admin.log_sizes(partitions)
    rows = [partition_row(place, starts, ends) | {"bytes": sizes[place]} for place in partitions]
    return topic_row(topic) | {"settings": settings, "partitions": rows}


def _settings(admin: Admin, name: str) -> list[dict[str, Any]]:
    """Returns the effective settings; none without the right to read them. Raises KafkaError."""
    try:
        found = admin.topic_configs(name)
    except KafkaError as error:
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return []
        raise
    return [{"name": one.name, "value": one.value, "set": not one.is_default} for one in found]


def _description_view(described: dict[str, Any]) -> RenderableType:
    rows = described["partitions"]
    facts = {
        "name": described["name"],
        "topic_id": described["topic_id"],
        "partitions": len(rows),
        "records": sum(row["records"] or 0 for row in rows),
        "bytes": sum(row["bytes"] for row in rows),
    }
    parts: list[RenderableType] = [facts_view(facts)]
    if described["settings"]:
        parts += ["", table(described["settings"], _SETTING_COLUMNS)]
    return Stack(*parts, "", table(rows, _PARTITION_COLUMNS))


@app.command(
    epilog=examples(
        "sharebroker topics alter orders --partitions 16",
        "sharebroker topics alter orders -c retention.ms=86400000 --unset retention.bytes",
    )
)
def alter(
    name: Topic,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=MOST,
            help="The new number of partitions, larger than the current one.",
        ),
    ] = None,
    config: Config = None,
    unset: Unset = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic, or change its properties."""
    changed = changes(config, unset, "--config")
    if partitions is None and not changed:
        raise typer.BadParameter("Nothing to change: give --partitions, --config or --unset.")
    with sharebroker.Admin(server) as admin:
        if changed:
            admin.alter_topic_configs(name, changed)
        if partitions is not None:
            admin.create_partitions(name, partitions)
        topic = admin.describe_topic(name)
    print_done(topic_row(topic), as_json, f"Changed topic {name}.")


@app.command(
    epilog=examples("sharebroker topics delete orders", "sharebroker topics delete orders returns --yes")
)
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of the topics.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without a question.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records and the groups' state in them.

    In a terminal the command asks first. Without a terminal it requires --yes.
    """
    if not yes:
        _confirm(names)
    with sharebroker.Admin(server) as admin:
        for name in names:
            admin.delete_topic(name)
            if not as_json:
                print_notice(f"Deleted topic {name}.")
    if as_json:
        print_json({"deleted": names})


def _confirm(names: list[str]) -> None:
    """Asks whether to delete the topics. Raises typer.Abort, and typer.BadParameter without a terminal."""
    if not sys.stdin.isatty():
        raise typer.BadParameter("Without a terminal, --yes is required to delete topics.")
    typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True, err=True)


@app.command(epilog=examples("sharebroker topics recall mails 0 4711"))
def recall(
    topic: Topic,
    partition: Partition,
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, help="Offset of the record.")],
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Recall a scheduled record: no share group delivers it."""
    with sharebroker.Admin(server) as admin:
        admin.recall_record(TopicPartition(topic, partition), offset)
    recalled = {"topic": topic, "partition": partition, "offset": offset}
    print_done(recalled, as_json, f"Recalled the record at offset {offset} of {topic}-{partition}.")


def topic_row(topic: TopicDescription) -> dict[str, Any]:
    """Returns a topic as plain values."""
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions": topic.partitions,
        "configs": dict(sorted(topic.configs.items())),
    }


def partition_row(place: TopicPartition, starts: Offsets, ends: Offsets) -> dict[str, Any]:
    """Returns a partition's offsets as plain values."""
    start, end = starts[place], ends[place]
    records = None if start is None or end is None else end - start
    return {"partition": place.partition, "start_offset": start, "end_offset": end, "records": records}
