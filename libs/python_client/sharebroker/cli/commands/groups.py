"""`sharebroker groups`: manages share groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import sharebroker
from sharebroker.admin_model import (
    EARLIEST,
    LATEST,
    ConsumerGroupDescription,
    ConsumerOffset,
    FailedEntry,
    FailedListing,
    GroupOffset,
    MemberDescription,
    RetryResult,
)
from sharebroker.cli.group_overview import (
    COMMITTED,
    CONSUMERS,
    SHARE,
    consumer_facts,
    find_group,
    group_rows,
    groups_view,
)
from sharebroker.cli.live import Watch, watch
from sharebroker.cli.options import (
    DEFAULT_SERVER,
    MOST,
    AsJson,
    Group,
    OffsetSpec,
    Server,
    Topic,
    Unset,
    changes,
    examples,
    parse_position,
)
from sharebroker.cli.output import (
    FAILED,
    columns,
    facts_view,
    numbers,
    print_done,
    print_json,
    print_notice,
    print_rows,
    readable_time,
    rows_view,
)
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition

if TYPE_CHECKING:
    from sharebroker.blocking.admin import Admin

app = typer.Typer(
    no_args_is_help=True, help="List, describe, configure and delete share groups; reset their offsets."
)

_MEMBERS: Final = columns("member", "epoch#", "client_id CLIENT", "host", "topics", "assigned")
_OFFSETS: Final = columns(
    *("topic", "partition#", "start_offset# START", "lag#", "ready#", "locked#", "waiting#", "archiving#"),
    *("oldest", "leader_epoch#"),
)
_FAILED: Final = columns(
    *("topic", "partition#", "first_offset# FIRST", "last_offset# LAST", "disposition"),
    *("delivery_count# DELIVERIES", "time", "member_id MEMBER", "reason", "retried"),
)
_RETRIES: Final = columns(
    "topic", "partition#", "first_offset# FIRST", "last_offset# LAST", "copy_offset# COPY", "error"
)
_RESETS: Final = columns("topic", "partition#", "old_offset# OLD", "new_offset# NEW", "records#")
_CONFIGS: Final = columns("name PROPERTY", "value", "is_default DEFAULT", "documentation MEANING")

_LAG: Final = ("lag", "ready", "locked", "waiting", "archiving")

InTopics = Annotated[
    list[str] | None, typer.Option("--topic", "-t", help="Only this topic; may be repeated.")
]


@app.command(name="list", epilog=examples("sharebroker groups list", "sharebroker groups list --watch 2"))
def list_(every: Watch = None, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the share groups and the consumer groups, with their members and lag.

    READY and LOCKED are the records of the lag that can be acquired now and that members hold; OLDEST is the
    age of the oldest unfinished record. Consumer groups have only a lag.

    Partitions that a group has not read yet have no start offset, and do not count. A group that has read
    none has `-`.
    """
    watch(every, as_json, lambda: group_rows(server), groups_view)


@app.command(
    epilog=examples("sharebroker groups describe billing", "sharebroker groups describe billing --json")
)
def describe(
    group: Group, every: Watch = None, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Show a group: its state, epochs, number of members, topics and lag.

    Of the lag: records that are ready, locked by members, waiting for the end of a delay, and archiving:
    failed, and waiting for their dead letters.
    """
    watch(every, as_json, lambda: _described(server, group), facts_view)


def _described(server: str, group: str) -> dict[str, Any]:
    with sharebroker.Admin(server) as admin:
        description = find_group(admin, group)
        if isinstance(description, ConsumerGroupDescription):
            return consumer_facts(description)
        rows = offset_rows(admin.group_offsets(group), None)
        paused = _paused(admin, group)
    return {
        "group": group,
        "type": SHARE,
        "state": description.state,
        **({} if paused is None else {"paused": paused}),
        "group_epoch": description.group_epoch,
        "assignment_epoch": description.assignment_epoch,
        "assignor": description.assignor,
        "members": len(description.members),
        "topics": sorted({row["topic"] for row in rows}),
        **{name: sum(row[name] or 0 for row in rows) for name in _LAG},
    }


@app.command(
    epilog=examples("sharebroker groups members billing", "sharebroker groups members billing --json")
)
def members(group: Group, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """List the members of a group; of a share group with their assigned partitions."""
    with sharebroker.Admin(server) as admin:
        description = find_group(admin, group)
    nothing = f"Group {group} has no members."
    if isinstance(description, ConsumerGroupDescription):
        print_rows([asdict(one) for one in description.members], CONSUMERS, as_json, nothing)
        return
    rows = [member_row(member) for member in description.members]
    if not as_json:
        rows = [row | {"assigned": _readable(row["assigned"])} for row in rows]
    print_rows(rows, _MEMBERS, as_json, nothing)


@app.command(
    name="offsets",
    epilog=examples(
        "sharebroker groups offsets billing", "sharebroker groups offsets billing --topic orders --json"
    ),
)
def show_offsets(
    group: Group,
    topic: InTopics = None,
    every: Watch = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List a group's start offset and lag per partition: ready, locked, waiting and archiving records.

    A consumer group has a committed offset and a lag.
    """
    watch(
        every,
        as_json,
        lambda: _offset_rows(server, group, topic),
        lambda rows: rows_view(
            rows,
            COMMITTED if rows and "committed_offset" in rows[0] else _OFFSETS,
            f"Group {group} has no offsets.",
        ),
    )


def _offset_rows(server: str, group: str, topics: list[str] | None) -> list[dict[str, Any]]:
    with sharebroker.Admin(server) as admin:
        description = find_group(admin, group)  # an unknown group has no offsets either
        if isinstance(description, ConsumerGroupDescription):
            return offset_rows(description.offsets, topics)
        return offset_rows(admin.group_offsets(group), topics)


@app.command(
    epilog=examples(
        "sharebroker groups failed billing", "sharebroker groups failed billing --topic orders --json"
    )
)
def failed(
    group: Group, topic: InTopics = None, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """List a group's failed records: rejected, exhausted (the delivery limit) and expired ones.

    Each partition lists the newest `share.failed.records.max` entries. An entry has one record, or neighbours
    that failed together. RETRIED are the offsets of the copies that `groups retry` made.
    """
    with sharebroker.Admin(server) as admin:
        admin.describe_group(group)  # an unknown group has no failed records either
        topics = topic or sorted({place.topic for place in admin.group_offsets(group)})
        listings = {name: _failed(admin, group, name) for name in topics}
    rows = [failed_row(name, entry) for name, listing in listings.items() for entry in listing.entries]
    dropped = sum(sum(listing.dropped.values()) for listing in listings.values())
    if as_json:
        print_json({"group": group, "entries": rows, "dropped": dropped})
        return
    rows = [row | {"retried": _copies(row["retried"])} for row in rows]
    print_rows(rows, _FAILED, as_json, f"Group {group} has no failed records.")
    if dropped:
        print_notice(f"{dropped} older failed records are no longer listed (share.failed.records.max).")


@app.command(
    epilog=examples(
        "sharebroker groups retry billing orders 7 4711",
        "sharebroker groups retry billing orders 7 4711 4712 --execute",
        "sharebroker groups retry billing orders --all --execute",
    )
)
def retry(
    group: Group,
    topic: Topic,
    partition: Annotated[
        int | None, typer.Argument(metavar="PARTITION", min=0, max=MOST, help="Number of the partition.")
    ] = None,
    offsets: Annotated[
        list[int] | None, typer.Argument(metavar="OFFSET", min=0, help="Offsets of failed records.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All failed records (of the partition) that were not retried yet.")
    ] = False,
    unlisted: Annotated[
        bool, typer.Option("--any", help="Also records that are not listed as failed.")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Retry the records; without it they are only checked.")
    ] = False,
    request_id: Annotated[
        str | None,
        typer.Option("--request-id", help="Id of the request: the same one copies no record twice."),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show the failed records that a retry delivers again to the group, or deliver them with --execute.

    A retry appends a copy of the record, which no other share group receives. Its delivery count starts at 1.
    Exit code 1 if a record cannot be retried.
    """
    if all_ == bool(offsets):
        raise typer.BadParameter("Pass PARTITION and OFFSET, or --all.")
    with sharebroker.Admin(server) as admin:
        selected: dict[int, Iterable[int]] = {}
        if offsets and partition is not None:
            selected[partition] = offsets
        else:
            admin.describe_group(group)  # an unknown group has no failed records either
            _check_partition(admin, topic, partition)
            selected = unretried(admin.failed_records(group, topic, include_retried=True), partition)
        results = admin.retry_failed_records(
            group,
            topic,
            selected,
            include_unlisted=unlisted,
            validate_only=not execute,
            request_id=request_id,
        )
    print_rows(retry_rows(topic, results), _RETRIES, as_json, f"Group {group} has no records to retry.")
    if results and not execute and not as_json:
        print_notice("Nothing is changed. Add --execute to retry these records.")
    if any(result.error is not None for result in results):
        raise typer.Exit(FAILED)


@app.command(
    epilog=examples(
        "sharebroker groups reset billing --topic orders --to earliest",
        "sharebroker groups reset billing --topic orders --to 2026-01-31T08:00:00+00:00",
        "sharebroker groups reset billing --topic orders --partition 3 --to 1200 --execute",
    )
)
def reset(
    group: Group,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Name of the topic.")],
    to: Annotated[
        str, typer.Option("--to", help="earliest, latest, an offset, or an ISO 8601 time with zone.")
    ],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", min=0, max=MOST, help="Only this partition; may be repeated."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Set the offsets; without it they are only shown.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show the start offsets that a reset sets, or set them with --execute. The group must have no members.

    RECORDS is the old offset minus the new one: so many are delivered again, or skipped if it is negative.
    """
    position = parse_position(to)
    with sharebroker.Admin(server) as admin:
        admin.describe_group(group)  # otherwise a reset creates an unknown group
        starts = _resolve(admin, topic, partition, position)
        old = admin.group_offsets(group)
        if execute:
            admin.alter_group_offsets(group, starts)
    rows = [reset_row(place, old.get(place), start) for place, start in starts.items()]
    print_rows(rows, _RESETS, as_json, f"Topic {topic} has no partitions.")
    if not execute and not as_json:
        print_notice("Nothing is changed. Add --execute to set these offsets.")


@app.command(
    epilog=examples("sharebroker groups delete billing", "sharebroker groups delete billing --topic orders")
)
def delete(
    group: Group, topic: InTopics = None, server: Server = DEFAULT_SERVER, as_json: AsJson = False
) -> None:
    """Delete a group without members, or its state in some topics."""
    with sharebroker.Admin(server) as admin:
        if topic:
            admin.delete_group_offsets(group, topic)
        else:
            admin.delete_group(group)
    deleted = f"the state of group {group} in {', '.join(topic)}" if topic else f"group {group}"
    print_done({"group": group, "deleted": topic or "all"}, as_json, f"Deleted {deleted}.")


@app.command(
    epilog=examples(
        "sharebroker groups config billing",
        "sharebroker groups config billing --set share.auto.offset.reset=earliest",
        "sharebroker groups config billing --unset share.record.lock.duration.ms",
    )
)
def config(
    group: Group,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A property to set, as key=value; may be repeated.")
    ] = None,
    unset: Unset = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show or change a group's properties. The group need not exist."""
    changed = changes(set_, unset, "--set")
    with sharebroker.Admin(server) as admin:
        if changed:
            admin.alter_group_configs(group, changed)
        rows = [asdict(value) for value in admin.group_configs(group)]
    print_rows(rows, _CONFIGS, as_json, "There are no properties.")


@app.command(epilog=examples("sharebroker groups resume billing"))
def resume(group: Group, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Deliver records to a paused group again: `share.paused`, which the circuit breaker may have set."""
    with sharebroker.Admin(server) as admin:
        admin.resume_group(group)
    print_done({"group": group, "paused": False}, as_json, f"Resumed group {group}.")


def member_row(member: MemberDescription) -> dict[str, Any]:
    """Returns a member as plain values; `assigned` maps topics to partitions."""
    return {
        "member": member.member_id,
        "epoch": member.member_epoch,
        "client_id": member.client_id,
        "host": member.client_host,
        "topics": sorted(member.topics),
        "assigned": {topic: list(partitions) for topic, partitions in member.assignment.items()},
    }


def _paused(admin: Admin, group: str) -> str | None:
    """Returns why the group is paused; None if it is not, or without the right to read its configs."""
    try:
        configs = {config.name: config.value for config in admin.group_configs(group)}
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return None
        raise
    return (configs["share.pause.reason"] or "yes") if configs["share.paused"] == "true" else None


def failed_row(topic: str, entry: FailedEntry) -> dict[str, Any]:
    """Returns failed records as plain values."""
    return {"topic": topic, **asdict(entry), "time": readable_time(entry.time)}


def _failed(admin: Admin, group: str, topic: str) -> FailedListing:
    """Lists the failed records of a topic, also while their leaders do not respond."""
    try:
        return admin.failed_records(group, topic, include_retried=True)
    except KafkaError as error:
        if not error.retriable or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        print_notice(f"What was retried in {topic} is not shown: {error.message}")
        return admin.failed_records(group, topic)


def _check_partition(admin: Admin, topic: str, partition: int | None) -> None:
    """Raises UNKNOWN_TOPIC_OR_PARTITION unless the topic has the partition."""
    number = admin.describe_topic(topic).partitions
    if partition is not None and partition >= number:
        text = f"Topic {topic} has partitions 0 to {number - 1}, not {partition}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)


def unretried(listing: FailedListing, partition: int | None) -> dict[int, Iterable[int]]:
    """Returns the offsets of failed records that were not retried, by partition."""
    found: dict[int, Iterable[int]] = {}
    for entry in listing.entries:
        if partition in (None, entry.partition):
            start, pieces = entry.first_offset, [found.get(entry.partition, ())]
            for run in sorted(entry.retried, key=attrgetter("first_offset")):
                pieces.append(range(start, run.first_offset))
                start = max(start, run.last_offset + 1)
            found[entry.partition] = chain(*pieces, range(start, entry.last_offset + 1))
    return found


def retry_rows(topic: str, results: Iterable[RetryResult]) -> list[dict[str, Any]]:
    """Returns results as plain values; neighbours with the same outcome have one row."""
    rows: list[dict[str, Any]] = []
    for result in results:
        error = None if result.error is None else f"{result.error.code.name}: {result.error.message}"
        row = {
            "topic": topic,
            "partition": result.partition,
            "first_offset": result.offset,
            "last_offset": result.offset,
            "copy_offset": result.copy_offset,
            "error": error,
        }
        if rows and _continues(rows[-1], row):
            rows[-1]["last_offset"] = result.offset
        else:
            rows.append(row)
    return rows


def _continues(row: dict[str, Any], following: dict[str, Any]) -> bool:
    """Returns whether a row of one record continues the row before it."""
    distance, copy = following["first_offset"] - row["first_offset"], row["copy_offset"]
    return (
        row["partition"] == following["partition"]
        and row["last_offset"] + 1 == following["first_offset"]
        and row["error"] is following["error"] is None
        and following["copy_offset"] == (None if copy is None else copy + distance)
    )


def _copies(runs: Iterable[Mapping[str, int]]) -> list[str]:
    """Returns the offsets of copies as text: "5041" or "5041-5043"."""
    ranges = ((run["copy_offset"], run["last_offset"] - run["first_offset"]) for run in runs)
    return [f"{first}-{first + more}" if more else str(first) for first, more in ranges]


def reset_row(place: TopicPartition, old: GroupOffset | None, new: int) -> dict[str, Any]:
    """Returns a reset of one partition; the old offset is None if the group has none there."""
    start = None if old is None else old.start_offset
    return {
        "topic": place.topic,
        "partition": place.partition,
        "old_offset": start,
        "new_offset": new,
        "records": None if start is None else start - new,
    }


def _readable(assigned: dict[str, list[int]]) -> list[str]:
    return [f"{topic}: {numbers(partitions)}" for topic, partitions in assigned.items()]


def offset_rows(
    offsets: Mapping[TopicPartition, GroupOffset | ConsumerOffset],
    only: list[str] | None,
) -> list[dict[str, Any]]:
    """Returns a group's position by topic and partition."""
    return [
        {"topic": place.topic, "partition": place.partition, **_offset_row(offset)}
        for place, offset in sorted(offsets.items())
        if not only or place.topic in only
    ]


def _offset_row(offset: GroupOffset | ConsumerOffset) -> dict[str, Any]:
    if isinstance(offset, ConsumerOffset):
        return asdict(offset)
    return asdict(offset) | {"oldest": None if offset.oldest is None else readable_time(offset.oldest)}


def _resolve(
    admin: Admin, topic: str, only: list[int] | None, position: OffsetSpec
) -> dict[TopicPartition, int]:
    """Returns the offset of `position` in each partition; a time after the last record is the log end.

    Raises KafkaError OFFSET_OUT_OF_RANGE.
    """
    count = admin.describe_topic(topic).partitions
    places = [TopicPartition(topic, number) for number in only or range(count)]
    ends = admin.list_offsets(places, LATEST)
    if position.offset is not None:
        starts = admin.list_offsets(places, EARLIEST)
        for place in places:
            _check_within(place, position.offset, starts[place] or 0, ends[place] or 0)
        return dict.fromkeys(places, position.offset)
    found = admin.list_offsets(places, EARLIEST if position.timestamp is None else position.timestamp)
    return {place: (ends[place] if start is None else start) or 0 for place, start in found.items()}


def _check_within(place: TopicPartition, offset: int, start: int, end: int) -> None:
    if not start <= offset <= end:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} is outside partition {place.partition} of topic {place.topic}, "
            f"which has offsets {start} to {end}.",
        )
