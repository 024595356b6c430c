"""`sharebroker topics …`"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import typer

from sharebroker.cli.admin import DEADLINE, admin, check
from sharebroker.cli.admin import topics as find_topics
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, Topic, examples, settings
from sharebroker.cli.output import Column, print_facts, print_json, print_rows, say
from sharebroker.cli.positions import EARLIEST, LATEST
from sharebroker.cluster.v1.cluster_pb2 import (
    RESOURCE_TYPE_TOPIC,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    ResourceType,
)
from sharebroker.gateway.v1.admin_pb2 import MetadataResponse
from sharebroker.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker.share_partition_leader.v1.share_partition_leader_pb2 import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)

app = typer.Typer(no_args_is_help=True, help="Create, look at, change and delete topics.")

_TOPIC_COLUMNS: Final = (
    Column("TOPIC", "name"),
    Column("PARTITIONS", "partitions", number=True),
    Column("ID", "topic_id"),
    Column("CONFIG", "configs"),
)
_PARTITION_COLUMNS: Final = (
    Column("PARTITION", "partition", number=True),
    Column("LEADER", "leader", number=True),
    Column("EPOCH", "leader_epoch", number=True),
    Column("START", "start_offset", number=True),
    Column("END", "end_offset", number=True),
    Column("RECORDS", "records", number=True),
)

Config = Annotated[
    list[str] | None, typer.Option("--config", "-c", help="key=value, by Kafka's name; may be repeated.")
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
        int, typer.Option("--partitions", "-p", min=0, help="How many; 0 takes the server's num.partitions.")
    ] = 0,
    config: Config = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    wanted = CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions, configs=settings(config, "--config")
    )
    with admin(server) as calls:
        made = calls.CreateTopics(CreateTopicsRequest(topics=[wanted]), timeout=DEADLINE).topics[0]
    check(made)
    if as_json:
        print_json({"name": name, "topic_id": made.topic_id, "partitions": made.num_partitions})
    else:
        say(f"Created topic {name} with {made.num_partitions} partitions.")


@app.command(name="list", epilog=examples("sharebroker topics list", "sharebroker topics list --json"))
def list_(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the topics."""
    with admin(server) as calls:
        rows = sorted((topic_row(topic) for topic in find_topics(calls)), key=lambda row: str(row["name"]))
    print_rows(rows, _TOPIC_COLUMNS, as_json, "There are no topics. Make one: sharebroker topics create NAME")


@app.command(
    epilog=examples("sharebroker topics describe orders", "sharebroker topics describe orders --json")
)
def describe(name: Topic, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Show a topic: its partitions, who leads them, where their logs start and end."""
    with admin(server) as calls:
        (topic,) = find_topics(calls, name)
        numbers = [partition.partition_index for partition in topic.partitions]
        starts = offsets(calls, topic.topic_id, dict.fromkeys(numbers, EARLIEST))
        ends = offsets(calls, topic.topic_id, dict.fromkeys(numbers, LATEST))
    facts = topic_row(topic)
    rows = [partition_row(partition, starts, ends) for partition in topic.partitions]
    if as_json:
        print_json(facts | {"partitions": rows})
        return
    print_facts(facts)
    print_rows(rows, _PARTITION_COLUMNS, as_json, "")


@app.command(
    epilog=examples(
        "sharebroker topics alter orders --partitions 16",
        "sharebroker topics alter orders -c retention.ms=86400000 --unset retention.bytes",
    )
)
def alter(
    name: Topic,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="The new number; more than there are.")
    ] = None,
    config: Config = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", help="A property to set back to its default.")
    ] = None,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Add partitions to a topic, or change its properties."""
    changes = config_changes(settings(config, "--config"), unset or ())
    if partitions is None and not changes:
        raise typer.BadParameter("Say what to change: --partitions, --config or --unset.")
    with admin(server) as calls:
        if partitions is not None:
            more = CreatePartitionsRequest(
                topics=[CreatePartitionsRequest.Topic(name=name, count=partitions)]
            )
            check(calls.CreatePartitions(more, timeout=DEADLINE).results[0])
        if changes:
            alter_configs(calls, RESOURCE_TYPE_TOPIC, name, changes)
    say(f"Changed topic {name}.")


@app.command(epilog=examples("sharebroker topics delete orders", "sharebroker topics delete orders returns"))
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of the topics.")],
    server: Server = DEFAULT_SERVER,
) -> None:
    """Delete topics with all their records, and what share groups know of them."""
    with admin(server) as calls:
        wanted = [DeleteTopicsRequest.Topic(name=name) for name in names]
        deleted = calls.DeleteTopics(DeleteTopicsRequest(topics=wanted), timeout=DEADLINE).topics
    for topic in deleted:
        check(topic)
        say(f"Deleted topic {topic.name}.")


def topic_row(topic: MetadataResponse.Topic) -> dict[str, Any]:
    """A topic's facts."""
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "partitions": len(topic.partitions),
        "configs": dict(sorted(topic.configs.items())),
    }


def partition_row(
    partition: MetadataResponse.Partition, starts: dict[int, int], ends: dict[int, int]
) -> dict[str, Any]:
    """A partition's facts; nobody leads it before its first use."""
    number = partition.partition_index
    led = partition.leader_id >= 0
    return {
        "partition": number,
        "leader": partition.leader_id if led else None,
        "leader_epoch": partition.leader_epoch if led else None,
        "start_offset": starts.get(number),
        "end_offset": ends.get(number),
        "records": ends[number] - starts[number] if number in ends and number in starts else None,
    }


def offsets(calls: AdminServiceStub, topic_id: str, asked: dict[int, int]) -> dict[int, int]:
    """Offsets of a topic by partition for timestamps (or EARLIEST, LATEST). Raises KafkaError."""
    wanted = [
        ListOffsetsRequest.Partition(topic_id=topic_id, partition=partition, timestamp=timestamp)
        for partition, timestamp in asked.items()
    ]
    answer = calls.ListOffsets(ListOffsetsRequest(partitions=wanted), timeout=DEADLINE)
    return dict(_offsets(answer.partitions))


def _offsets(partitions: Iterable[ListOffsetsResponse.Partition]) -> Iterable[tuple[int, int]]:
    for partition in partitions:
        check(partition, f"Partition {partition.partition}")
        yield partition.partition, partition.offset


def config_changes(
    values: dict[str, str], unset: Sequence[str]
) -> list[IncrementalAlterConfigsRequest.Config]:
    """What to set and what to set back."""
    changed = [IncrementalAlterConfigsRequest.Config(name=key, value=value) for key, value in values.items()]
    return changed + [IncrementalAlterConfigsRequest.Config(name=key) for key in unset]


def alter_configs(
    calls: AdminServiceStub,
    kind: ResourceType.ValueType,
    name: str,
    changes: list[IncrementalAlterConfigsRequest.Config],
) -> None:
    """Changes properties of a topic or a group. Raises KafkaError."""
    resource = IncrementalAlterConfigsRequest.Resource(
        resource_type=kind, resource_name=name, configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    check(calls.IncrementalAlterConfigs(request, timeout=DEADLINE).responses[0])
