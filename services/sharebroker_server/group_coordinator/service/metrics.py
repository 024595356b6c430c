"""What a group coordinator tells of its groups: states, members, and how far behind they are.

Lag is counted here and not by leaders, who forget a group when nobody reads for it: it grows just then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.group_coordinator.core.commands import DescribeGroup, GroupDescription, ListGroups
from sharebroker_server.group_coordinator.core.machine import GroupCounts
from sharebroker_server.group_coordinator.core.model import GroupState
from sharebroker_server.group_coordinator.service.lag import UNKNOWN, Lags
from sharebroker_server.group_coordinator.service.shards import Shards
from sharebroker_server.telemetry.metrics import OTHER, Family, counter, gauge

_STATES: Final = tuple(state.value.lower() for state in GroupState)

_Place = tuple[str, str, str]


class Waiting(NamedTuple):
    """What waits in a partition; `oldest` is when the first was made (ms), 0: not known, or nothing waits."""

    lag: int
    oldest: int

    def with_(self, other: Waiting) -> Waiting:
        """Of two partitions together."""
        times = [time for time in (self.oldest, other.oldest) if time]
        return Waiting(self.lag + other.lag, min(times, default=0))


_NONE: Final = Waiting(0, 0)
REST: Final[_Place] = (OTHER, OTHER, OTHER)


class GroupRow(NamedTuple):
    """A group as it was at the last look."""

    state: str
    epoch: int
    members: int


class GroupMetrics:
    """Asks shards, share coordinators and leaders; tells what they said. `most` bounds the series."""

    def __init__(self, shards: Shards, lags: Lags, most: Callable[[], int], counts: GroupCounts) -> None:
        self._shards = shards
        self._lags = lags
        self._most = most
        self._counts = counts
        self._groups: dict[str, GroupRow] = {}
        self._waiting: dict[_Place, Waiting] = {}

    async def refresh(self) -> None:
        """Looks anew. A group that cannot be asked stays as it was known."""
        states, _ = await self._shards.list(ListGroups())
        groups: dict[str, GroupRow] = {}
        waiting: dict[_Place, Waiting] = {}
        for group_id in sorted(states):
            row, rows = await self._looked(group_id)
            if row is not None:
                groups[group_id] = row
            self._take_in(waiting, rows)
        self._groups, self._waiting = groups, waiting

    def families(self) -> Iterable[Family]:
        """See Collector."""
        states = Counter(row.state.lower() for row in self._groups.values())
        yield gauge(
            "sharebroker_share_groups",
            "Share groups whose coordinator this process is, by state (Kafka: share-group-count).",
            ((("state", state), states[state]) for state in _STATES),
        )
        yield counter(
            "sharebroker_share_group_rebalances_total",
            "Times that members, subscriptions or partitions raised the epoch of a group "
            "(Kafka: share-group-rebalance-count).",
            [((), self._counts.rebalances)],
        )
        named = list(self._groups.items())[: self._most()]
        yield gauge(
            "sharebroker_share_group_members",
            "Members of a group.",
            ((("group", group_id), row.members) for group_id, row in named),
        )
        yield gauge(
            "sharebroker_share_group_epoch",
            "Epoch of a group: it rises with every rebalance.",
            ((("group", group_id), row.epoch) for group_id, row in named),
        )
        yield gauge(
            "sharebroker_share_group_lag",
            "Records of a partition that the group has not finished; of one not begun, if the group begins "
            "with the earliest.",
            ((_labels(place), waiting.lag) for place, waiting in self._waiting.items()),
        )
        time = now()
        yield gauge(
            "sharebroker_share_group_oldest_unaccepted_seconds",
            "Age of the first record of a partition that the group has not finished; 0 where none waits.",
            ((_labels(place), _age(waiting, time)) for place, waiting in self._waiting.items()),
        )

    async def _looked(self, group_id: str) -> tuple[GroupRow | None, list[tuple[_Place, Waiting]]]:
        try:
            group = await self._shards.ask(DescribeGroup(group_id), group_id, GroupDescription)
        except KafkaError:
            return self._known(group_id)
        asked = pb.DescribeShareGroupOffsetsRequest.Group(group_id=group_id, all_topics=True)
        described = await self._lags.describe(asked)
        fresh = await self._lags.fresh(described)
        begun = _rows(described)
        rows = [*begun, *(((group_id, topic, str(part)), Waiting(*more)) for topic, part, *more in fresh)]
        return GroupRow(group.state, group.epoch, len(group.members)), rows

    def _known(self, group_id: str) -> tuple[GroupRow | None, list[tuple[_Place, Waiting]]]:
        rows = [(place, waiting) for place, waiting in self._waiting.items() if place[0] == group_id]
        return self._groups.get(group_id), rows

    def _take_in(self, into: dict[_Place, Waiting], rows: Iterable[tuple[_Place, Waiting]]) -> None:
        most = self._most()
        for place, waiting in rows:
            if len(into) < most:
                into[place] = waiting
            else:
                into[REST] = into.get(REST, _NONE).with_(waiting)


def _labels(place: _Place) -> tuple[str, ...]:
    group_id, topic, partition = place
    return ("group", group_id, "topic", topic, "partition", partition)


def _age(waiting: Waiting, time: float) -> float:
    return max(time - waiting.oldest / 1000, 0.0) if waiting.oldest else 0.0


def _rows(described: pb.DescribeShareGroupOffsetsResponse.Group) -> Iterator[tuple[_Place, Waiting]]:
    for topic in described.topics:
        for row in topic.partitions:
            if row.lag != UNKNOWN:
                place = (described.group_id, topic.topic_name, str(row.partition))
                yield place, Waiting(row.lag, row.oldest_timestamp)
