"""`sharebroker top`: a live view of groups and topics with their rates."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from sharebroker import aio
from sharebroker.cli.group_overview import GroupOverview, age, overview_row, overviews
from sharebroker.cli.live import SHORTEST, watch
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server
from sharebroker.cli.output import columns, console, readable_time, rows_view
from sharebroker_protocol import clock
from sharebroker_protocol.model import TopicPartition

EXAMPLES: Final = (
    "sharebroker top",
    "sharebroker top --interval 5",
    "sharebroker top --count 2 --interval 1 --json",
)

_GROUPS: Final = columns(
    *("group", "type", "state", "members#", "lag#", "ready#", "locked#", "oldest#"),
    "finished_per_s# FINISHED/S",
)
_TOPICS: Final = columns("topic", "partitions#", "end_offsets# OFFSETS", "published_per_s# PUBLISHED/S")

_PARTITIONS_AT_ONCE: Final = 1000
"""Partitions of one request."""
_FRAME: Final = 8
"""Lines of the view that are no rows."""
_FEWEST: Final = 3
"""Rows of each table, however low the terminal is."""


@dataclass(frozen=True, slots=True)
class TopSample:
    """Groups and log ends at one time, in seconds since the Unix epoch."""

    time: float
    ends: Mapping[TopicPartition, int]
    groups: tuple[GroupOverview, ...]


def top(
    interval: Annotated[
        float,
        typer.Option("--interval", "-i", min=SHORTEST, metavar="SECONDS", help="The time between two views."),
    ] = 2.0,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="Stop after this many views.", show_default=False),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show groups and topics with their rates, again and again, until Ctrl-C.

    FINISHED/S are the records that a group finishes per second, PUBLISHED/S those that producers append. The
    groups with the largest lag and the busiest topics come first. Without a terminal the views follow each
    other; with --json each is one line.
    """
    previous: TopSample | None = None

    def load() -> dict[str, Any]:
        nonlocal previous
        sample = asyncio.run(_sample(server))
        found = document(previous, sample)
        previous = sample
        return found

    watch(interval, as_json, load, _view, count)


async def _sample(server: str) -> TopSample:
    async with aio.Admin(server) as admin:
        topics = await admin.list_topics()
        places = [
            TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)
        ]
        ends: dict[TopicPartition, int] = {}
        for start in range(0, len(places), _PARTITIONS_AT_ONCE):
            found = await admin.list_offsets(places[start : start + _PARTITIONS_AT_ONCE])
            ends |= {place: end or 0 for place, end in found.items()}
        return TopSample(clock.now(), ends, tuple(await overviews(admin)))


def document(previous: TopSample | None, sample: TopSample) -> dict[str, Any]:
    """Returns a sample as plain values, with the rates since the previous one; None without one."""
    seconds = None if previous is None else sample.time - previous.time
    published = _grown(previous.ends if previous else {}, sample.ends)
    before = {group.group_id: finished(previous.ends, group) for group in previous.groups} if previous else {}
    groups = [
        overview_row(group, sample.time)
        | {
            "finished_per_s": rate(
                sum(_grown(before.get(group.group_id, {}), finished(sample.ends, group)).values()), seconds
            )
        }
        for group in sample.groups
    ]
    topics = [
        {
            "topic": topic,
            "partitions": len(places),
            "end_offsets": sum(sample.ends[place] for place in places),
            "published_per_s": rate(sum(published.get(place, 0) for place in places), seconds),
        }
        for topic, places in _by_topic(sample.ends).items()
    ]
    return {
        "time": readable_time(sample.time),
        "groups": sorted(groups, key=lambda row: (-(row["lag"] or 0), row["group"])),
        "topics": sorted(topics, key=lambda row: (-(row["published_per_s"] or 0), row["topic"])),
    }


def finished(ends: Mapping[TopicPartition, int], group: GroupOverview) -> dict[TopicPartition, int]:
    """Returns the end of each log minus the group's lag, where both are known."""
    return {place: ends[place] - lag for place, lag in (group.lags or {}).items() if place in ends}


def rate(records: int, seconds: float | None) -> float | None:
    """Returns records per second to one decimal; None without a time."""
    return None if not seconds or seconds <= 0 else round(records / seconds, 1)


def _grown(
    before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns by how much each position grew; 0 if it shrank, such as after a reset."""
    return {place: max(0, value - before[place]) for place, value in now.items() if place in before}


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place)
    return found


def _view(found: dict[str, Any]) -> RenderableType:
    """Returns the groups above the topics, with as many rows as the terminal has room for."""
    shown = console()
    most = max(_FEWEST, (shown.height - _FRAME) // 2) if shown.is_terminal else None
    groups = [row | {"oldest": age(row["oldest_age_s"])} for row in found["groups"][:most]]
    lag = sum(row["lag"] or 0 for row in found["groups"])
    published = sum(row["published_per_s"] or 0.0 for row in found["topics"])
    heading = Text(
        f"{found['time']}   groups: {len(found['groups'])}, lag {lag:,}   "
        f"topics: {len(found['topics'])}, {published:,.0f} records/s"
    )
    return Group(
        heading,
        "",
        rows_view(groups, _GROUPS, "There are no groups."),
        "",
        rows_view(found["topics"][:most], _TOPICS, "There are no topics."),
    )
