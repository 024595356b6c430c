"""What all groups do: members, lag and ages, read with few requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.console import RenderableType

from sharebroker import aio
from sharebroker.admin_model import (
    ConsumerGroupDescription,
    GroupDescription,
    GroupListing,
    GroupOffset,
)
from sharebroker.cli.output import columns, rows_view
from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicPartition

if TYPE_CHECKING:
    from sharebroker.aio.admin import Admin
    from sharebroker.blocking.admin import Admin as BlockingAdmin

SHARE: Final = "share"
CLASSIC: Final = "classic"
"""The type of consumer groups, as in Kafka."""
CONSUMER: Final = "consumer"
"""The type of consumer groups, as shown."""

CONSUMERS: Final = columns(
    "member_id MEMBER", "client_id CLIENT", "client_host HOST", "group_instance_id INSTANCE"
)
COMMITTED: Final = columns("topic", "partition#", "committed_offset# COMMITTED", "lag#")
_GROUPS: Final = columns("group", "type", "state", "members#", "lag#", "ready#", "locked#", "oldest#")

_AT_ONCE: Final = 100
"""Groups of one request."""

Described = GroupDescription | ConsumerGroupDescription | KafkaError
Offsets = Mapping[TopicPartition, GroupOffset]


@dataclass(frozen=True, slots=True)
class GroupOverview:
    """A summary of a group; None is unknown, or does not apply to a consumer group."""

    group_id: str
    """The id of the group."""
    group_type: str
    """"share" or "consumer"."""
    state: str
    """The state of the group."""
    members: int | None
    """The number of members."""
    lags: Mapping[TopicPartition, int] | None
    """The number of unfinished records of each partition whose lag is known."""
    ready: int | None
    """Records that can be acquired now."""
    locked: int | None
    """Records that members hold."""
    oldest: float | None
    """The time of the oldest unfinished record, in seconds since the Unix epoch."""

    @property
    def lag(self) -> int | None:
        """The number of unfinished records; None if it is not known."""
        return None if self.lags is None else sum(self.lags.values())


async def overviews(admin: Admin) -> list[GroupOverview]:
    """Returns all groups that the caller may describe, sorted by id. Raises KafkaError.

    What cannot be read of a group is unknown.
    """
    listed = await admin.list_groups((SHARE, CLASSIC))
    found: list[GroupOverview] = []
    for start in range(0, len(listed), _AT_ONCE):
        portion = listed[start : start + _AT_ONCE]
        shared = [one.group_id for one in portion if one.group_type == SHARE]
        consumers = [one.group_id for one in portion if one.group_type != SHARE]
        described: dict[str, Described] = {}
        described |= await admin.describe_groups(shared) if shared else {}
        described |= await admin.describe_consumer_groups(consumers) if consumers else {}
        offsets = await admin.offsets_of_groups(shared) if shared else {}
        found += [overview(one, described.get(one.group_id), offsets.get(one.group_id)) for one in portion]
    return found


def overview(
    listed: GroupListing, described: Described | None, offsets: Offsets | KafkaError | None
) -> GroupOverview:
    """Returns a summary of a group. A consumer group has its offsets in its description.

    The start offset of a partition, and thus its lag, is not decided before the group reads it. The lag of a
    group that has read no partition is unknown.
    """
    kind = SHARE if listed.group_type == SHARE else CONSUMER
    if isinstance(described, ConsumerGroupDescription):
        lags = {place: one.lag for place, one in described.offsets.items() if one.lag is not None}
        return GroupOverview(
            listed.group_id, kind, described.state, len(described.members), lags, None, None, None
        )
    members = len(described.members) if isinstance(described, GroupDescription) else None
    unknown = GroupOverview(listed.group_id, kind, listed.state, members, None, None, None, None)
    if offsets is None or isinstance(offsets, KafkaError):
        return unknown
    lags = {place: one.lag for place, one in offsets.items() if one.lag is not None}
    if offsets and not lags:
        return unknown
    return GroupOverview(
        listed.group_id,
        kind,
        listed.state,
        members,
        lags,
        sum(one.ready or 0 for one in offsets.values()),
        sum(one.locked or 0 for one in offsets.values()),
        min((one.oldest for one in offsets.values() if one.oldest is not None), default=None),
    )


def overview_row(group: GroupOverview, now: float) -> dict[str, Any]:
    """Returns a group as plain values; `now` is in seconds since the Unix epoch."""
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "members": group.members,
        "lag": group.lag,
        "ready": group.ready,
        "locked": group.locked,
        "oldest_age_s": None if group.oldest is None else max(0.0, round(now - group.oldest, 1)),
    }


def age(seconds: float | None) -> str | None:
    """Formats an age in its two largest units, such as `3 h 12 min`; below a minute with one decimal."""
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def group_rows(server: str) -> list[dict[str, Any]]:
    """Returns all groups as plain values. Raises KafkaError."""

    async def load() -> list[GroupOverview]:
        async with aio.Admin(server) as admin:
            return await overviews(admin)

    found = asyncio.run(load())
    now = clock.now()
    return [overview_row(one, now) for one in found]


def groups_view(rows: list[dict[str, Any]]) -> RenderableType:
    """Returns groups as a table for people."""
    shown = [row | {"oldest": age(row["oldest_age_s"])} for row in rows]
    return rows_view(shown, _GROUPS, "There are no groups.")


def find_group(admin: BlockingAdmin, group: str) -> GroupDescription | ConsumerGroupDescription:
    """Returns a share group or a consumer group. Raises KafkaError GROUP_ID_NOT_FOUND."""
    shared = admin.describe_groups([group])[group]
    if isinstance(shared, KafkaError) and shared.code is ErrorCode.GROUP_ID_NOT_FOUND:
        consumers = admin.describe_consumer_groups([group])[group]
        if isinstance(consumers, ConsumerGroupDescription):
            return consumers
    if isinstance(shared, KafkaError):
        raise shared
    return shared


def consumer_facts(group: ConsumerGroupDescription) -> dict[str, Any]:
    """Returns a consumer group as plain values."""
    return {
        "group": group.group_id,
        "type": CONSUMER,
        "state": group.state,
        "assignor": group.assignor,
        "members": len(group.members),
        "topics": sorted({place.topic for place in group.offsets}),
        "lag": sum(one.lag or 0 for one in group.offsets.values()),
    }
