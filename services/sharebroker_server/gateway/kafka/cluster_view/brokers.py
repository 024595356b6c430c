"""The gateways as a Kafka client sees them: brokers, each the leader of its share of the partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from time import monotonic
from typing import Final, Protocol

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.internal_topics import OFFSETS_TOPIC_ID, STATE_TOPIC_ID
from sharebroker_server.cluster.router import GATEWAY, GROUP_COORDINATOR, SHARE_COORDINATOR
from sharebroker_server.gateway.kafka.cluster_view.live_members import Announced
from sharebroker_server.leases import names
from sharebroker_server.leases.port import LeasesUnavailable, Member
from sharebroker_server.leases.rules import preferred, spread

_log = logging.getLogger(__name__)

_GENERATION: Final = "brokers"

_REMEMBERED: Final = 10_000
"""Topics whose leaders are looked up once."""

_ASKED_AGAIN: Final = 1.0
"""Seconds. Processes hear of each other at different times: one that saw the present brokers before another
still told of those before has a number that clients, who never go back, would take for an old one."""

_HEARD: Final = 0.4
"""Seconds after which the others have heard of a leave. Until then who leaves goes on as before: a client
that it sent away would be sent back, and a number asked for the brokers of before would rise above theirs."""

_LISTED: Final = 5.0
"""Seconds for which a broker that took leave is listed and leads nothing. librdkafka drops who is not, with
partitions that are on their way from there, and looks for their leaders a second later. Who vanished is not:
clients have tried to reach it for a while, and would be slow to when it is back."""

_COORDINATORS: Final = {STATE_TOPIC_ID: SHARE_COORDINATOR, OFFSETS_TOPIC_ID: GROUP_COORDINATOR}
"""Internal topics' partitions are shards of a role."""


class Generations(Protocol):
    """Versions that increase when shared state changes (see `sharebroker_server.leases.port`)."""

    async def generation(self, name: str, digest: str) -> int:
        """The number of what `digest` stands for; one more than the last when it differs from it."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A gateway with a Kafka door."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class View:
    """The brokers at one time. `epoch` rises with every change: it is every partition's leader epoch here.

    `went` are brokers that are none any more, since a moment ago; `partitions` knows internal topics too.
    """

    members: tuple[Member, ...]
    me: int
    epoch: int
    group_shard: Callable[[str], int]
    partitions: Callable[[str], int]
    went: tuple[Member, ...] = ()
    _leaders: dict[str, list[int]] = field(default_factory=dict)

    @cached_property
    def brokers(self) -> dict[int, Broker]:
        """By node id."""
        return {member.node_id: _broker(member) for member in self.members}

    @property
    def leaving(self) -> bool:
        """Whether this very process is none of them any more: clients are to go elsewhere."""
        return self.me not in self.brokers

    @cached_property
    def listed(self) -> dict[int, Broker]:
        """Those that clients are to know, by node id: the brokers, and those that went."""
        return {member.node_id: _broker(member) for member in self.went} | self.brokers

    def leader(self, topic_id: str, partition: int) -> int:
        """The node that clients are to ask for a partition.

        The same rule spreads the partitions over the processes that really lead them, and shards over their
        coordinators, so that where each process has all roles no request is passed on.
        """
        size = self.partitions(topic_id)
        if not 0 <= partition < size:  # clients may ask for what does not exist
            return self._preferred(names.partition(topic_id, partition))
        leaders = self._leaders.get(topic_id)
        if leaders is None or len(leaders) != size:
            if len(self._leaders) == _REMEMBERED:
                self._leaders.clear()
            leaders = self._leaders[topic_id] = self._spread(topic_id, size)
        return leaders[partition]

    def leads(self, topic_id: str, partition: int) -> bool:
        """Whether clients are to ask this very process."""
        return self._alone or self.leader(topic_id, partition) == self.me

    def coordinator(self, group_id: str) -> int:
        """The node that clients are to ask about a group, or a transactional id."""
        return self.leader(OFFSETS_TOPIC_ID, self.group_shard(group_id))

    def check_coordinates(self, group_id: str) -> None:
        """Raises NOT_COORDINATOR where clients are to ask another process."""
        if not self._alone and self.coordinator(group_id) != self.me:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"Another broker coordinates {group_id!r}.")

    @cached_property
    def _alone(self) -> bool:
        return [member.node_id for member in self.members] == [self.me]

    def _spread(self, topic_id: str, size: int) -> list[int]:
        role = _COORDINATORS.get(topic_id)
        resources = names.shards(role, size) if role else names.partitions(topic_id, size)
        # shards in the order of their leases, which decides who gets which (leases/holder.py)
        owners = spread(sorted(resources) if role else resources, GATEWAY, self.members)
        return [owners[resource].node_id if owners else self.me for resource in resources]

    def _preferred(self, resource: str) -> int:
        member = preferred(resource, GATEWAY, self.members)
        return member.node_id if member is not None else self.me


class Brokers:
    """Follows which gateways there are."""

    def __init__(
        self,
        announced: Announced,
        me: Member,
        generations: Generations,
        group_shard: Callable[[str], int],
        partitions: Callable[[str], int],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._announced = announced
        self._me = me
        self._generations = generations
        self._view = View((me,), me.node_id, 0, group_shard, partitions)
        self._seen: tuple[Member, ...] = ()
        self._sorted: tuple[Member, ...] = (me,)
        self._others: tuple[Member, ...] = ()
        self._unlisted_at = 0.0
        self._leaves_at: float | None = None
        self._changing = asyncio.Lock()
        self._now = now
        self._ask_at = now()

    def unchanged(self, view: View) -> bool:
        """Whether these still are the brokers, as far as this process has heard."""
        return view is self._view and self._present() == view.members

    async def view(self) -> View:
        """The brokers of now; those of a moment ago while Redis is away."""
        members = self._present()
        if self._view.went and self._now() >= self._unlisted_at:
            self._view = replace(self._view, went=())
        if self._leaves_at is not None and members != self._others and self._view.epoch:
            return self._view
        due = self._due()
        if not due and self._view.epoch and members == self._view.members:
            return self._view
        async with self._changing:
            if due or not self._view.epoch or members != self._view.members:
                await self._change(members)
        return self._view

    async def checked(self) -> View:
        """As `view`; who died a moment ago is none of them."""
        await self._announced.look(m for m in self._view.members if m.node_id != self._me.node_id)
        return await self.view()

    def _due(self) -> bool:
        """Whether the caller is to ask for the number again; one at a time, the others need not wait."""
        now = self._now()
        if now < self._ask_at:
            return False
        self._ask_at = now + _ASKED_AGAIN
        return True

    async def _change(self, members: tuple[Member, ...]) -> None:
        digest = blake2b(repr([(m.node_id, m.kafka) for m in members]).encode(), digest_size=16).hexdigest()
        try:
            epoch = await self._generations.generation(_GENERATION, digest)
        except LeasesUnavailable as error:
            _log.info("the brokers' generation cannot be read: %s", error)
            return
        epoch = max(epoch, self._view.epoch)  # a store that lost its last writes may count from before
        if epoch != self._view.epoch or members != self._view.members:
            went = self._gone_from(members)
            self._view = replace(self._view, members=members, epoch=epoch, went=went, _leaders={})

    def _gone_from(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """Who is not among these, and took its leave lately."""
        here = {member.node_id for member in members}
        gone = [member for member in self._view.members if member.node_id not in here]
        leaving = [member for member in gone if self._announced.takes_leave(member)]
        if leaving:
            self._unlisted_at = self._now() + _LISTED
        return tuple(member for member in (*self._view.went, *leaving) if member.node_id not in here)

    def _present(self) -> tuple[Member, ...]:
        seen = tuple(self._announced.present())
        if seen != self._seen:  # every request asks
            self._seen = seen
            others = [m for m in seen if m.kafka and m.node_id != self._me.node_id]
            self._others = tuple(sorted(others, key=lambda member: member.node_id))
            self._sorted = tuple(sorted([*others, self._me], key=lambda member: member.node_id))
            if not (others and any(m.is_leaving for m in seen if m.node_id == self._me.node_id)):
                self._leaves_at = None
            elif self._leaves_at is None:
                self._leaves_at = self._now() + _HEARD
        if self._leaves_at is not None and self._now() >= self._leaves_at:
            return self._others  # where clients are to go
        return self._sorted


def _broker(member: Member) -> Broker:
    host, _, port = member.kafka.rpartition(":")
    return Broker(member.node_id, host.strip("[]"), int(port))
