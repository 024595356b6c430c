"""Metrics of share groups: states, members, and lag.

The group coordinator computes the lag because a leader drops the state of a group without readers, and such a
group is the one whose lag grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.group_coordinator.core.share_groups.commands import DescribeGroup, ListGroups
from sharebroker_server.group_coordinator.core.share_groups.group import GroupState, ShareGroup
from sharebroker_server.group_coordinator.service.lag import UNKNOWN, Lags
from sharebroker_server.group_coordinator.service.shards import Host
from sharebroker_server.telemetry.metrics import OTHER, Family, counter, gauge

_STATES: Final = tuple(state.value.lower() for state in GroupState)

_Place = tuple[str, str, str]


class Backlog(NamedTuple):
    """The lag of a partition; `oldest` is the time of its first record (ms), 0 if unknown or without lag.

    `locked`, `waiting` and `archiving` are parts of the lag.
    """

    lag: int
    oldest: int
    locked: int = 0
    waiting: int = 0
    archiving: int = 0

    def plus(self, other: Backlog) -> Backlog:
        """Returns the backlog of both partitions together."""
        times = [time for time in (self.oldest, other.oldest) if time]
        return Backlog(
            self.lag + other.lag,
            min(times, default=0),
            self.locked + other.locked,
            self.waiting + other.waiting,
            self.archiving + other.archiving,
        )

    def by_state(self) -> Iterator[tuple[str, int]]:
        """Yields the number of records in each state; their sum is the lag."""
        yield "ready", self.lag - self.locked - self.waiting - self.archiving
        yield "locked", self.locked
        yield "waiting", self.waiting
        yield "archiving", self.archiving


_NONE: Final = Backlog(0, 0)
OTHERS: Final[_Place] = (OTHER, OTHER, OTHER)


class GroupRow(NamedTuple):
    """A group at the last refresh."""

    state: str
    epoch: int
    members: int


class GroupMetrics:
    """Collects metrics from shards, share coordinators and leaders; `most` limits the number of series.

    `retention_ms` returns the age at which the records of a topic are deleted; -1 without a limit.
    """

    def __init__(
        self,
        host: Host,
        lags: Lags,
        most: Callable[[], int],
        rebalances: Callable[[], int],
        retention_ms: Callable[[str], int],
    ) -> None:
        self._host = host
        self._lags = lags
        self._most = most
        self._rebalances = rebalances
        self._retention_ms = retention_ms
        self._groups: dict[str, GroupRow] = {}
        self._backlogs: dict[_Place, Backlog] = {}

    async def refresh(self) -> None:
        """Collects the metrics again; a group whose shard does not respond keeps its last values."""
        states, _ = await self._host.list_all(ListGroups())
        groups: dict[str, GroupRow] = {}
        backlogs: dict[_Place, Backlog] = {}
        for group_id in sorted(states):
            row, rows = await self._collect(group_id)
            if row is not None:
                groups[group_id] = row
            self._add(backlogs, rows)
        self._groups, self._backlogs = groups, backlogs

    def families(self) -> Iterable[Family]:
        """Yields the metrics as of the last refresh."""
        states = Counter(row.state.lower() for row in self._groups.values())
        yield gauge(
            "sharebroker_share_groups",
            "Share groups that this process coordinates, by state (Kafka: share-group-count).",
            ((("state", state), states[state]) for state in _STATES),
        )
        yield counter(
            "sharebroker_share_group_rebalances_total",
            "Changes of members, subscriptions or partitions that raised a group epoch "
            "(Kafka: share-group-rebalance-count).",
            [((), self._rebalances())],
        )
        named = list(self._groups.items())[: self._most()]
        yield gauge(
            "sharebroker_share_group_members",
            "Members of a share group.",
            ((("group", group_id), row.members) for group_id, row in named),
        )
        yield gauge(
            "sharebroker_share_group_epoch",
            "Group epoch; it rises with every rebalance.",
            ((("group", group_id), row.epoch) for group_id, row in named),
        )
        yield gauge(
            "sharebroker_share_group_lag",
            "Records of a partition that the group has not finished. A partition that was never read counts "
            "only if the group starts with the earliest record.",
            ((_labels(place), backlog.lag) for place, backlog in self._backlogs.items()),
        )
        yield gauge(
            "sharebroker_share_group_records",
            "Records of the lag by state: ready to be acquired, locked by members, "
            "waiting for the end of a delay, or archiving: waiting for their dead letters.",
            (
                ((*_labels(place), "state", state), number)
                for place, backlog in self._backlogs.items()
                for state, number in backlog.by_state()
            ),
        )
        time = now()
        yield gauge(
            "sharebroker_share_group_oldest_unaccepted_seconds",
            "Age of the oldest record of a partition that the group has not finished; 0 without lag.",
            ((_labels(place), _age(backlog, time)) for place, backlog in self._backlogs.items()),
        )
        yield gauge(
            "sharebroker_share_group_retention_margin_seconds",
            "Time until retention.ms deletes the oldest record of a partition that the group has not "
            "finished; none if records are kept.",
            self._margins(time),
        )

    def _margins(self, time: float) -> Iterator[tuple[tuple[str, ...], float]]:
        for place, backlog in self._backlogs.items():
            retention_ms = self._retention_ms(place[1])
            if backlog.oldest and retention_ms >= 0:
                yield _labels(place), retention_ms / 1000 - _age(backlog, time)

    async def _collect(self, group_id: str) -> tuple[GroupRow | None, list[tuple[_Place, Backlog]]]:
        try:
            group = await self._host.request(group_id, DescribeGroup(group_id), ShareGroup)
        except KafkaError:
            return self._known(group_id)
        request = pb.DescribeShareGroupOffsetsRequest.Group(group_id=group_id, all_topics=True)
        described = await self._lags.describe(request)
        unread = await self._lags.unread(described)
        read = _rows(described)
        rows = [*read, *(((group_id, topic, str(part)), Backlog(*more)) for topic, part, *more in unread)]
        return GroupRow(group.state.value, group.epoch, len(group.members)), rows

    def _known(self, group_id: str) -> tuple[GroupRow | None, list[tuple[_Place, Backlog]]]:
        rows = [(place, backlog) for place, backlog in self._backlogs.items() if place[0] == group_id]
        return self._groups.get(group_id), rows

    def _add(self, into: dict[_Place, Backlog], rows: Iterable[tuple[_Place, Backlog]]) -> None:
        most = self._most()
        for place, backlog in rows:
            if len(into) < most:
                into[place] = backlog
            else:
                into[OTHERS] = into.get(OTHERS, _NONE).plus(backlog)


def _labels(place: _Place) -> tuple[str, ...]:
    group_id, topic, partition = place
    return ("group", group_id, "topic", topic, "partition", partition)


def _age(backlog: Backlog, time: float) -> float:
    return max(time - backlog.oldest / 1000, 0.0) if backlog.oldest else 0.0


def _rows(described: pb.DescribeShareGroupOffsetsResponse.Group) -> Iterator[tuple[_Place, Backlog]]:
    for topic in described.topics:
        for row in topic.partitions:
            if row.lag != UNKNOWN:
                place = (described.group_id, topic.topic_name, str(row.partition))
                yield place, Backlog(row.lag, row.oldest_timestamp, row.locked, row.waiting, row.archiving)
