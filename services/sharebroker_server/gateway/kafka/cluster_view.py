"""The brokers as a Kafka client sees them: each leads its share of the partitions.

Theory of operation
-------------------

Every gateway with a Kafka listener is a broker for clients. Metadata must be consistent: two brokers must not
return different leaders with the same leader epoch, and epochs must never fall, since clients ignore older
ones.

* `LiveMembers` returns the processes that are announced and not suspected. `Brokers` sorts them and caches a
  `ClusterView`, which maps partitions to brokers by rendezvous hashing (`spread`).
* The view's `epoch` is the version of the list of brokers in the lease store: it increases with every change
  of the list, and it is every partition's leader epoch. It is read again after `_EPOCH_INTERVAL` and after
  every change.
* A view without a number (`epoch` 0) is never returned while the store can be read. While it cannot, the
  previous view stays valid.
* A broker that leaves stays in its own view for `_LEAVE_DELAY`, and in the others' list for
  `_LISTED_AFTER_LEAVING` without leading anything. Both delays let clients move without an error.

A crash is detected faster than its lease expires. After a broken connection a client requests the leaders at
once, and librdkafka does not repeat that request within a second. The broker that receives it therefore
probes the ports of the others before it responds. The failure detector (`leases/membership.py`) decides
whether a process is dead. A member that it has not declared dead within `_DETECTION_TIME` is alive, and its
refused connection no longer counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from time import monotonic
from typing import Any, Final, Protocol

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.topics import OFFSETS_TOPIC_ID, STATE_TOPIC_ID
from sharebroker_server.leases import names, placement
from sharebroker_server.leases.port import ClusterMember, LeaseStore, LeasesUnavailable
from sharebroker_server.routing.router import GATEWAY, GROUP_COORDINATOR, SHARE_COORDINATOR

_log = structlog.get_logger()

_GENERATION: Final = "brokers"

_CACHED_TOPICS: Final = 10_000
"""Topics whose leaders a view caches."""

_EPOCH_INTERVAL: Final = 1.0
"""Seconds after which the epoch is read again. Processes detect each other at different times. A process
that still announces the previous brokers may raise the epoch; with an older epoch this broker's leaders
would be ignored."""

_LEAVE_DELAY: Final = 0.4
"""Seconds after which all brokers have received a leave notice. Until then the leaving broker's view is
unchanged. A client that it sent away earlier would be sent back, and its epoch of the previous brokers would
exceed the others'."""

_LISTED_AFTER_LEAVING: Final = 5.0
"""Seconds for which a broker that left is listed and leads nothing. librdkafka closes connections to brokers
that are not listed, discards their responses in flight, and looks up leaders only a second later. A broker
that crashed is not listed: clients already tried to reconnect to it, and their back-off would delay them
after its restart."""

_COORDINATORS: Final = {STATE_TOPIC_ID: SHARE_COORDINATOR, OFFSETS_TOPIC_ID: GROUP_COORDINATOR}
"""The role whose shards are the partitions of an internal topic."""


LED_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors that come with a leader hint."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A gateway with a Kafka listener."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class ClusterView:
    """The brokers at one time. `epoch` increases with every change and is every partition's leader epoch.

    `local_id` is the node id of this process. `departed` are brokers that left a moment ago. `partitions`
    returns the number of partitions of a topic id, also for internal topics.
    """

    members: tuple[ClusterMember, ...]
    local_id: int
    epoch: int
    group_shard: Callable[[str], int]
    partitions: Callable[[str], int]
    departed: tuple[ClusterMember, ...] = ()
    _leaders: dict[str, list[int]] = field(default_factory=dict)

    @cached_property
    def brokers(self) -> dict[int, Broker]:
        """The brokers by node id."""
        return {member.node_id: _broker(member) for member in self.members}

    @property
    def leaving(self) -> bool:
        """Whether this process is no longer one of the brokers, so that clients must use others."""
        return self.local_id not in self.brokers

    @cached_property
    def listed(self) -> dict[int, Broker]:
        """The brokers that responses list, by node id: the brokers and the departed ones."""
        return {member.node_id: _broker(member) for member in self.departed} | self.brokers

    def leader(self, topic_id: str, partition: int) -> int:
        """Returns the node that leads a partition, as far as clients are concerned.

        The same rule places the real leaders of partitions and the shards of coordinators. If each process
        has all roles, no request is forwarded.
        """
        size = self.partitions(topic_id)
        if not 0 <= partition < size:  # clients may request a partition that does not exist
            return self._preferred(names.partition(topic_id, partition))
        leaders = self._leaders.get(topic_id)
        if leaders is None or len(leaders) != size:
            if len(self._leaders) == _CACHED_TOPICS:
                self._leaders.clear()
            leaders = self._leaders[topic_id] = self._spread(topic_id, size)
        return leaders[partition]

    def leads(self, topic_id: str, partition: int) -> bool:
        """Returns whether this process leads a partition."""
        return self._alone or self.leader(topic_id, partition) == self.local_id

    def coordinator(self, group_id: str) -> int:
        """Returns the node that coordinates a group or a transactional id."""
        return self.leader(OFFSETS_TOPIC_ID, self.group_shard(group_id))

    def check_coordinates(self, group_id: str) -> None:
        """Raises NOT_COORDINATOR if another process coordinates the group."""
        if not self._alone and self.coordinator(group_id) != self.local_id:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"Another broker coordinates {group_id!r}.")

    def add_leader_hints(self, response: Any, moved: Sequence[tuple[TopicIdPartition, Any]]) -> None:
        """Adds partition leaders to the results, and their addresses to the response (KIP-951)."""
        if not moved:
            return
        leaders = set()
        for partition, result in moved:
            leader = self.leader(*partition)
            leaders.add(leader)
            result.current_leader = response.LeaderIdAndEpoch(leader_id=leader, leader_epoch=self.epoch)
        response.node_endpoints = [
            response.NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port)
            for node, broker in self.brokers.items()
            if node in leaders
        ]

    @cached_property
    def _alone(self) -> bool:
        return [member.node_id for member in self.members] == [self.local_id]

    def _spread(self, topic_id: str, size: int) -> list[int]:
        role = _COORDINATORS.get(topic_id)
        resources = names.shards(role, size) if role else names.partitions(topic_id, size)
        # Shards in the order of their leases, which determines their owners (leases/holder.py).
        owners = placement.spread(sorted(resources) if role else resources, GATEWAY, self.members)
        return [owners[resource].node_id if owners else self.local_id for resource in resources]

    def _preferred(self, resource: str) -> int:
        member = placement.preferred(resource, GATEWAY, self.members)
        return member.node_id if member is not None else self.local_id


class Brokers:
    """Keeps the current view of the brokers."""

    def __init__(
        self,
        live_members: LiveMembers,
        local: ClusterMember,
        generations: LeaseStore,
        group_shard: Callable[[str], int],
        partitions: Callable[[str], int],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._live_members = live_members
        self._local = local
        self._generations = generations
        self._view = ClusterView((local,), local.node_id, 0, group_shard, partitions)
        self._last_live: tuple[ClusterMember, ...] = ()
        self._sorted: tuple[ClusterMember, ...] = (local,)
        self._peers: tuple[ClusterMember, ...] = ()
        self._unlisted_at = 0.0
        self._leaves_at: float | None = None
        self._changing = asyncio.Lock()
        self._now = now
        self._epoch_due_at = now()

    def unchanged(self, view: ClusterView) -> bool:
        """Returns whether a view is still the current one in this process."""
        return view is self._view and self._current_members() == view.members

    async def view(self) -> ClusterView:
        """Returns the current view; the previous one while Redis is unavailable."""
        members = self._current_members()
        if self._view.departed and self._now() >= self._unlisted_at:
            self._view = replace(self._view, departed=())
        if self._leaves_at is not None and members != self._peers and self._view.epoch:
            return self._view
        due = self._epoch_due()
        if not due and self._view.epoch and members == self._view.members:
            return self._view
        async with self._changing:
            if due or not self._view.epoch or members != self._view.members:
                await self._change(members)
        return self._view

    async def checked(self) -> ClusterView:
        """Returns the current view after port probes, so that brokers that just died are not in it."""
        await self._live_members.probe(m for m in self._view.members if m.node_id != self._local.node_id)
        return await self.view()

    def _epoch_due(self) -> bool:
        """Returns True to one caller per interval: that one reads the epoch, and the others need not wait."""
        now = self._now()
        if now < self._epoch_due_at:
            return False
        self._epoch_due_at = now + _EPOCH_INTERVAL
        return True

    async def _change(self, members: tuple[ClusterMember, ...]) -> None:
        digest = blake2b(repr([(m.node_id, m.kafka) for m in members]).encode(), digest_size=16).hexdigest()
        try:
            epoch = await self._generations.generation(_GENERATION, digest)
        except LeasesUnavailable as error:
            _log.info("broker epoch unavailable", error=str(error))
            return
        epoch = max(epoch, self._view.epoch)  # a store that lost its last writes may return a lower one
        if epoch != self._view.epoch or members != self._view.members:
            departed = self._departed_from(members)
            self._view = replace(self._view, members=members, epoch=epoch, departed=departed, _leaders={})

    def _departed_from(self, members: tuple[ClusterMember, ...]) -> tuple[ClusterMember, ...]:
        """Returns the brokers that are not among these members and left recently."""
        present = {member.node_id for member in members}
        missing = [member for member in self._view.members if member.node_id not in present]
        left = [member for member in missing if self._live_members.is_leaving(member)]
        if left:
            self._unlisted_at = self._now() + _LISTED_AFTER_LEAVING
        return tuple(member for member in (*self._view.departed, *left) if member.node_id not in present)

    def _current_members(self) -> tuple[ClusterMember, ...]:
        live = tuple(self._live_members.live())
        if live != self._last_live:  # called for every request, so the lists are made only after a change
            self._last_live = live
            peers = [m for m in live if m.kafka and m.node_id != self._local.node_id]
            self._peers = tuple(sorted(peers, key=lambda member: member.node_id))
            self._sorted = tuple(sorted([*peers, self._local], key=lambda member: member.node_id))
            if not (peers and any(m.is_leaving for m in live if m.node_id == self._local.node_id)):
                self._leaves_at = None
            elif self._leaves_at is None:
                self._leaves_at = self._now() + _LEAVE_DELAY
        if self._leaves_at is not None and self._now() >= self._leaves_at:
            return self._peers
        return self._sorted


def _broker(member: ClusterMember) -> Broker:
    host, _, port = member.kafka.rpartition(":")
    return Broker(member.node_id, host.strip("[]"), int(port))


_PROBE_INTERVAL: Final = 0.1
"""Seconds for which the result of a port probe is valid."""

_PROBE_WAIT: Final = 0.1
"""Seconds that a caller waits for port probes; a host that is down never responds."""

_DETECTION_TIME: Final = 3.0
"""Seconds within which the failure detector declares a dead process dead."""


class _Announced(Protocol):
    @property
    def members(self) -> Sequence[ClusterMember]: ...


class LiveMembers:
    """The announced members without the suspected ones.

    `refused` probes whether an address refuses connections.
    """

    def __init__(
        self,
        announced: _Announced,
        refused: Callable[[str], Awaitable[bool]],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._announced = announced
        self._refused = refused
        self._now = now
        self._suspected: dict[str, float] = {}
        self._probed: dict[str, float] = {}
        self._probing: dict[str, asyncio.Task[None]] = {}

    def live(self) -> Sequence[ClusterMember]:
        """Returns the announced members that are not suspected."""
        members = self._announced.members
        if not self._suspected:
            return members
        owners = {member.owner for member in members}
        self._suspected = {owner: since for owner, since in self._suspected.items() if owner in owners}
        return [member for member in members if not self.is_suspected(member)]

    def is_suspected(self, member: ClusterMember) -> bool:
        """Returns whether the member's port refused a connection within the detection time."""
        since = self._suspected.get(member.owner)
        return since is not None and self._now() - since < _DETECTION_TIME

    def is_leaving(self, member: ClusterMember) -> bool:
        """Returns whether clients should leave the member: it is leaving or suspected."""
        announced = (other.is_leaving for other in self._announced.members if other.owner == member.owner)
        return self.is_suspected(member) or any(announced)

    async def probe(self, members: Iterable[ClusterMember]) -> None:
        """Probes the ports of these members in parallel, for `_PROBE_WAIT` seconds at most."""
        now = self._now()
        for member in members:
            owner = member.owner
            due = now - self._probed.get(owner, -_PROBE_INTERVAL) >= _PROBE_INTERVAL
            if owner not in self._probing and due:
                self._probing[owner] = asyncio.create_task(self._probe(member))
        if self._probing:
            await asyncio.wait(list(self._probing.values()), timeout=_PROBE_WAIT)

    async def _probe(self, member: ClusterMember) -> None:
        try:
            if await self._refused(member.address):
                self._suspected.setdefault(member.owner, self._now())
        finally:
            del self._probing[member.owner]
            announced = {other.owner for other in self._announced.members}
            self._probed = {owner: at for owner, at in self._probed.items() if owner in announced}
            self._probed[member.owner] = self._now()
