"""`sharebroker groups …`"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from sharebroker.cli.admin import DEADLINE, admin, check
from sharebroker.cli.admin import topics as find_topics
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Group, Server, examples, settings
from sharebroker.cli.output import Column, numbers, print_facts, print_json, print_rows, say
from sharebroker.cli.positions import EARLIEST, LATEST, Position, parse_position
from sharebroker.cli.topics import alter_configs, config_changes, offsets
from sharebroker.cluster.v1.cluster_pb2 import RESOURCE_TYPE_GROUP
from sharebroker.gateway.v1.admin_pb2 import DescribeConfigsRequest
from sharebroker.gateway.v1.admin_pb2_grpc import AdminServiceStub
from sharebroker.group_coordinator.v1.group_coordinator_pb2 import (
    AlterShareGroupOffsetsRequest,
    DeleteGroupsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ListGroupsRequest,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

app = typer.Typer(
    no_args_is_help=True, help="Look at share groups, move their offsets, change and delete them."
)

_GROUPS: Final = (Column("GROUP", "group"), Column("STATE", "state"))
_MEMBERS: Final = (
    Column("MEMBER", "member"),
    Column("EPOCH", "epoch", number=True),
    Column("CLIENT", "client_id"),
    Column("HOST", "host"),
    Column("TOPICS", "topics"),
    Column("ASSIGNED", "assigned"),
)
_OFFSETS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("START", "start_offset", number=True),
    Column("LAG", "lag", number=True),
    Column("LEADER EPOCH", "leader_epoch", number=True),
)
_RESETS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number=True),
    Column("NEW START", "start_offset", number=True),
)
_CONFIGS: Final = (
    Column("PROPERTY", "name"),
    Column("VALUE", "value"),
    Column("DEFAULT", "is_default"),
    Column("MEANING", "documentation"),
)

InTopics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated.")
]


@app.command(name="list", epilog=examples("sharebroker groups list", "sharebroker groups list --json"))
def list_(server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the share groups."""
    with admin(server) as calls:
        answer = calls.ListGroups(ListGroupsRequest(types_filter=["share"]), timeout=DEADLINE)
    rows = [{"group": group.group_id, "state": group.group_state} for group in answer.groups]
    print_rows(sorted(rows, key=lambda row: row["group"]), _GROUPS, as_json, "There are no share groups.")


@app.command(
    epilog=examples("sharebroker groups describe billing", "sharebroker groups describe billing --json")
)
def describe(group: Group, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Show a group: its state, its epochs, how many members it has, and how far it lags."""
    with admin(server) as calls:
        found = _described(calls, group)
        rows = _offset_rows(calls, group, None)
    facts = {
        "group": group,
        "state": found.group_state,
        "group_epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "assignor": found.assignor_name,
        "members": len(found.members),
        "topics": sorted({row["topic"] for row in rows}),
        "lag": sum(row["lag"] or 0 for row in rows),
    }
    if as_json:
        print_json(facts)
    else:
        print_facts(facts)


@app.command(
    epilog=examples("sharebroker groups members billing", "sharebroker groups members billing --json")
)
def members(group: Group, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the members of a group with the partitions they are assigned."""
    with admin(server) as calls:
        found = _described(calls, group)
    rows = [member_row(member) for member in found.members]
    if not as_json:
        rows = [row | {"assigned": _readable(row["assigned"])} for row in rows]
    print_rows(rows, _MEMBERS, as_json, f"Group {group} has no members.")


@app.command(
    name="offsets",
    epilog=examples(
        "sharebroker groups offsets billing", "sharebroker groups offsets billing --topic orders --json"
    ),
)
def show_offsets(
    group: Group, topic: InTopics = None, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """List a group's start offsets and lag, by partition."""
    with admin(server) as calls:
        rows = _offset_rows(calls, group, topic)
    print_rows(rows, _OFFSETS, as_json, f"Group {group} has no offsets.")


@app.command(
    epilog=examples(
        "sharebroker groups reset billing --topic orders --to earliest",
        "sharebroker groups reset billing --topic orders --to 2026-01-31T08:00:00+00:00 --dry-run",
        "sharebroker groups reset billing --topic orders --partition 3 --to 1200",
    )
)
def reset(
    group: Group,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Name of the topic.")],
    to: Annotated[str, typer.Option("--to", help="earliest, latest, an offset, or a time (ISO 8601).")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this partition; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show where it would move, change nothing.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Move where a group without members starts in a topic."""
    position = parse_position(to)
    with admin(server) as calls:
        starts = _resolve(calls, topic, partition, position)
        if not dry_run:
            _alter_offsets(calls, group, topic, starts)
    rows = [{"topic": topic, "partition": number, "start_offset": start} for number, start in starts.items()]
    print_rows(rows, _RESETS, as_json, f"Topic {topic} has no partitions.")


@app.command(
    epilog=examples("sharebroker groups delete billing", "sharebroker groups delete billing --topic orders")
)
def delete(group: Group, topic: InTopics = None, server: Server = DEFAULT_SERVER) -> None:
    """Delete a group without members, or only what it knows of some topics."""
    with admin(server) as calls:
        if topic:
            _forget(calls, group, topic)
            return
        answer = calls.DeleteGroups(DeleteGroupsRequest(group_ids=[group]), timeout=DEADLINE)
    check(answer.results[0])
    say(f"Deleted group {group}.")


@app.command(
    epilog=examples(
        "sharebroker groups config billing",
        "sharebroker groups config billing --set share.auto.offset.reset=earliest",
        "sharebroker groups config billing --unset share.record.lock.duration.ms",
    )
)
def config(
    group: Group,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value; may be repeated.")] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", help="A property to set back to its default.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show or change a group's properties; a group can be configured before it exists."""
    changes = config_changes(settings(set_, "--set"), unset or ())
    with admin(server) as calls:
        if changes:
            alter_configs(calls, RESOURCE_TYPE_GROUP, group, changes)
        rows = _config_rows(calls, group)
    print_rows(rows, _CONFIGS, as_json, "There are no properties.")


def member_row(member: ShareGroupDescribeResponse.Member) -> dict[str, Any]:
    """A member's facts; `assigned` maps topics to partitions."""
    return {
        "member": member.member_id,
        "epoch": member.member_epoch,
        "client_id": member.client_id,
        "host": member.client_host,
        "topics": list(member.subscribed_topic_names),
        "assigned": {
            topic.topic_name or topic.topic_id: list(topic.partitions)
            for topic in member.assignment.topic_partitions
        },
    }


def _readable(assigned: dict[str, list[int]]) -> list[str]:
    return [f"{topic}: {numbers(partitions)}" for topic, partitions in assigned.items()]


def _described(calls: AdminServiceStub, group: str) -> ShareGroupDescribeResponse.DescribedGroup:
    answer = calls.ShareGroupDescribe(ShareGroupDescribeRequest(group_ids=[group]), timeout=DEADLINE)
    check(answer.groups[0])
    return answer.groups[0]


def _offset_rows(calls: AdminServiceStub, group: str, only: list[str] | None) -> list[dict[str, Any]]:
    wanted = DescribeShareGroupOffsetsRequest.Group(group_id=group, all_topics=True)
    request = DescribeShareGroupOffsetsRequest(groups=[wanted])
    found = calls.DescribeShareGroupOffsets(request, timeout=DEADLINE).groups[0]
    check(found)
    rows = []
    for topic in found.topics:
        for partition in topic.partitions if not only or topic.topic_name in only else ():
            check(partition, f"Topic {topic.topic_name}, partition {partition.partition}")
            rows.append(
                {
                    "topic": topic.topic_name,
                    "partition": partition.partition,
                    "start_offset": partition.start_offset if partition.start_offset >= 0 else None,
                    "lag": partition.lag if partition.lag >= 0 else None,
                    "leader_epoch": partition.leader_epoch,
                }
            )
    return sorted(rows, key=lambda row: (row["topic"], row["partition"]))


def _resolve(
    calls: AdminServiceStub, name: str, only: list[int] | None, position: Position
) -> dict[int, int]:
    """The offset that a position means in each partition; a time after the last record means the end."""
    (topic,) = find_topics(calls, name)
    partitions = only or [partition.partition_index for partition in topic.partitions]
    if position.offset is not None:
        return dict.fromkeys(partitions, position.offset)
    found = offsets(calls, topic.topic_id, dict.fromkeys(partitions, position.timestamp or EARLIEST))
    ends = offsets(calls, topic.topic_id, dict.fromkeys(partitions, LATEST))
    return {partition: ends[partition] if start < 0 else start for partition, start in found.items()}


def _alter_offsets(calls: AdminServiceStub, group: str, topic: str, starts: dict[int, int]) -> None:
    wanted = AlterShareGroupOffsetsRequest.Topic(topic_name=topic)
    for partition, start in starts.items():
        wanted.partitions.add(partition=partition, start_offset=start)
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=[wanted])
    answer = calls.AlterShareGroupOffsets(request, timeout=DEADLINE)
    check(answer)
    for result in answer.responses[0].partitions:
        check(result, f"Topic {topic}, partition {result.partition}")


def _forget(calls: AdminServiceStub, group: str, topics: list[str]) -> None:
    request = DeleteShareGroupOffsetsRequest(group_id=group, topic_names=topics)
    answer = calls.DeleteShareGroupOffsets(request, timeout=DEADLINE)
    check(answer)
    for topic in answer.responses:
        check(topic)
        say(f"Group {group} forgot topic {topic.topic_name}.")


def _config_rows(calls: AdminServiceStub, group: str) -> list[dict[str, Any]]:
    wanted = DescribeConfigsRequest.Resource(resource_type=RESOURCE_TYPE_GROUP, resource_name=group)
    found = calls.DescribeConfigs(DescribeConfigsRequest(resources=[wanted]), timeout=DEADLINE).results[0]
    check(found)
    return [
        {
            "name": entry.name,
            "value": entry.value,
            "is_default": entry.is_default,
            "documentation": entry.documentation,
        }
        for entry in found.configs
    ]
