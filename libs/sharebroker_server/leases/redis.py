"""Lease store in Redis: a hash {owner, epoch, expires_ms} per lease, on the clock of Redis.

Every change is one script of one key, so claims are atomic and a Redis Cluster may distribute the leases. A
request for many leases sends all scripts at once. The scripts run even when the memory of Redis is full,
because reads of records need owners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import structlog
from typing_extensions import override

from sharebroker_protocol.clock import now
from sharebroker_server.aio import Turns
from sharebroker_server.leases.port import ClusterMember, Lease, LeaseStore, LeasesUnavailable
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.port import (
    Link,
    Part,
    RedisError,
    RedisOutcomeUnknown,
    Script,
    lua,
    within,
)

_log = structlog.get_logger()

HERE: Final = Path(__file__).parent

_JUMP: Final = 5.0
"""Seconds by which the clock skew changes between two announcements that are logged as a jump."""

RENEWALS_AT_ONCE: Final = 500
"""Renewals that are sent in one turn of the event loop."""

_MAX_ROUND_TRIP: Final = 0.5
"""Seconds; the clock skew is not computed from slower responses."""


class RedisLeaseStore(LeaseStore):
    """Leases and announcements in Redis; `timeout` in seconds bounds each request.

    Claims use the link `writes`, by default `link`. If `writes` waits for replicas, an owner starts with a
    claim that the replicas have.
    """

    def __init__(
        self,
        link: Link,
        keys: Keys | None = None,
        *,
        timeout: float = 2.0,
        writes: Link | None = None,
    ) -> None:
        self._keys = keys or Keys()
        self._timeout = timeout
        self._link = link
        claim = lua(HERE, "now", "succeeds", "claim", flags="allow-oom")
        self._claim = (writes or link).script(claim, replicated=True)
        self._renew = link.script(lua(HERE, "now", "renew", flags="allow-oom"))
        self._release = link.script(lua(HERE, "release", flags="allow-oom"))
        self._read = link.script(lua(HERE, "now", "read", flags="no-writes"))
        self._announce = link.script(lua(HERE, "now", "succeeds", "announce", flags="allow-oom"))
        self._members = link.script(lua(HERE, "now", "members", flags="no-writes"))
        self._silent = link.script(lua(HERE, "now", "silent", flags="no-writes"))
        self._mark_dead = link.script(lua(HERE, "now", "mark_dead", flags="allow-oom"))
        self._withdraw = link.script(lua(HERE, "withdraw", flags="allow-oom"))
        self._generation = link.script(lua(HERE, "generation", flags="allow-oom"))
        self._measured = False
        self._turns = Turns()

    @override
    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        reply = await self._run(self._claim, self._keys.lease(resource), owner, _ms(ttl), int(force))
        return _lease(resource, reply)

    async def claim_from(self, resource: str, owner: str, ttl: float, epoch: int) -> Lease:
        """Claims a lease as `claim` does; if it is ours, its epoch is at least `epoch` afterwards.

        Raises LeasesUnavailable.
        """
        lease = await self.claim(resource, owner, ttl)
        if lease.owner != owner or lease.epoch >= epoch:
            return lease
        args = (owner, _ms(ttl), epoch - lease.epoch)
        reply = await self._run(self._claim, self._keys.lease(resource), *args)
        return _lease(resource, reply)

    @override
    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> Sequence[bool | None]:
        # Sent in portions, but awaited together: each silent server costs the time-out once.
        sent = await self._turns.collect(
            (
                self._renew.send((self._keys.lease(resource),), (owner, epoch, _ms(ttl)))
                for resource, epoch in epochs.items()
            ),
            RENEWALS_AT_ONCE,
        )
        # Most replies arrived between two portions, and asyncio.wait calls back for each future in a turn.
        if waiting := [reply for reply in sent if not reply.done()]:
            await asyncio.wait(waiting, timeout=self._timeout)
        replies = await self._turns.collect(map(_outcome, sent), RENEWALS_AT_ONCE)
        failures = [reply for reply in replies if isinstance(reply, RedisError)]
        if failures and len(failures) == len(replies):
            raise LeasesUnavailable(str(failures[0])) from failures[0]
        return [None if isinstance(reply, RedisError) else reply == 1 for reply in replies]

    @override
    async def release(self, resource: str, owner: str) -> None:
        await self._run(self._release, self._keys.lease(resource), owner)

    @override
    async def remove(self, resource: str) -> None:
        await self._reply(self._link.send("UNLINK", self._keys.lease(resource)))

    @override
    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        sent = [self._read.send((self._keys.lease(resource),), ()) for resource in resources]
        # A gathering future costs more than the script, and most reads are of one lease.
        replies = [await self._reply(sent[0])] if len(sent) == 1 else await self._reply(asyncio.gather(*sent))
        return [
            _lease(resource, reply) if reply else None
            for resource, reply in zip(resources, replies, strict=True)
        ]

    @override
    async def announce(self, member: ClusterMember, ttl: float) -> bool:
        announced = replace(member, skew=round(self.clock_skew, 1))
        args = (member.node_id, member.owner, _ms(ttl), _encode(announced), _encode(member.as_dead()))
        sent = now()
        [was_dead, redis_ms] = await self._run(self._announce, self._keys.members(), *args)
        received = now()
        if received - sent < _MAX_ROUND_TRIP:
            self._measure_skew(sent - (redis_ms + 1) / 1000, received - redis_ms / 1000)
        return bool(was_dead)

    def _measure_skew(self, least: float, most: float) -> None:
        """Takes the greatest skew that is possible, so that no stored time is reached early.

        `least` and `most` assume that Redis read its clock, in whole milliseconds, when the request was sent
        and when the response arrived. A smaller value of a faster response remains while both allow it.
        """
        if self._measured and least <= self.clock_skew <= most:
            return
        if self._measured and abs(most - self.clock_skew) > _JUMP:
            _log.warning("clock of Redis jumped", before=round(self.clock_skew, 1), now=round(most, 1))
        self._measured, self.clock_skew = True, most

    @override
    async def members(self) -> list[ClusterMember]:
        reply = await self._run(self._members, self._keys.members())
        return sorted(map(_member, reply), key=lambda member: member.node_id)

    @override
    async def silent(self, ttl: float, since: float) -> list[ClusterMember]:
        reply = await self._run(self._silent, self._keys.members(), _ms(ttl - since))
        return sorted(map(_member, reply), key=lambda member: member.node_id)

    @override
    async def mark_dead(self, member: ClusterMember, ttl: float, since: float) -> bool:
        args = (member.node_id, member.owner, _ms(ttl - since), _encode(member.as_dead()), _ms(ttl))
        reply = await self._run(self._mark_dead, self._keys.members(), *args)
        return bool(reply)

    @override
    async def withdraw(self, owner: str) -> None:
        await self._run(self._withdraw, self._keys.members(), owner.partition("/")[0], owner)

    @override
    async def generation(self, name: str, digest: str) -> int:
        reply = await self._run(self._generation, self._keys.generation(name), digest)
        return int(reply)

    async def _run(self, script: Script, key: str, *args: Part) -> Any:
        """Returns the reply to a script."""
        return await self._reply(script.send((key,), args))

    async def _reply(self, reply: asyncio.Future[Any]) -> Any:
        try:
            return await within(self._timeout, reply)
        except RedisError as error:
            raise LeasesUnavailable(str(error)) from error


def _outcome(reply: asyncio.Future[Any]) -> Any:
    """Returns the result of a reply, or its RedisError; a reply that is not done is one."""
    if not reply.done():
        reply.cancel()
        return RedisOutcomeUnknown("no reply from Redis in time")
    error = reply.exception()
    if error is not None and not isinstance(error, RedisError):
        raise error
    return error or reply.result()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _lease(resource: str, reply: list[Any]) -> Lease:
    owner, epoch, remaining_ms = reply
    return Lease(resource, owner.decode(), epoch, remaining_ms / 1000)


def _encode(member: ClusterMember) -> bytes:
    fields = [member.owner, member.node_id, sorted(member.roles), member.address, member.kafka]
    return orjson.dumps([*fields, member.version, member.skew] if member.version else fields)


def _member(announcement: bytes) -> ClusterMember:
    # Later versions append fields.
    owner, node_id, roles, address, kafka, *more = orjson.loads(announcement)
    return ClusterMember(owner, node_id, frozenset(roles), address, kafka, *more[:2])
