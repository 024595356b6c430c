"""Leases in Redis: a hash {owner, epoch, expires_ms} each, on Redis's own clock.

Every change is one script of one key, so that a claim is atomic and a cluster may spread the leases; a call
about many leases sends all of them at once. Leases go on when Redis's memory is full: reads need owners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from sharebroker_protocol.clock import now
from sharebroker_server.leases.port import Lease, LeasesUnavailable, Member
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.redis_link.link.errors import RedisError, RedisOutcomeUnknown
from sharebroker_server.redis_link.link.lua import lua
from sharebroker_server.redis_link.link.port import Link, Part, Script, within

HERE: Final = Path(__file__).parent

_PROMPT: Final = 0.5
"""Seconds; an answer that took longer tells no time worth comparing."""


class RedisLeaseStore:
    """Leases and announcements in Redis; `timeout` in seconds bounds each call.

    Claims go by `writes`, by default the same link: who waits for replicas there begins with what they have.
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
        self._depose = link.script(lua(HERE, "now", "depose", flags="allow-oom"))
        self._withdraw = link.script(lua(HERE, "withdraw", flags="allow-oom"))
        self._generation = link.script(lua(HERE, "generation", flags="allow-oom"))
        self._skew = 0.0

    async def claim(self, resource: str, owner: str, ttl: float, *, force: bool = False) -> Lease:
        """As the port says."""
        [reply] = await self._run(self._claim, [self._keys.lease(resource)], owner, _ms(ttl), int(force))
        return _lease(resource, reply)

    async def renew(self, epochs: Mapping[str, int], owner: str, ttl: float) -> Sequence[bool | None]:
        """As the port says."""
        sent = [
            self._renew.send((self._keys.lease(resource),), (owner, epoch, _ms(ttl)))
            for resource, epoch in epochs.items()
        ]
        if sent:
            await asyncio.wait(sent, timeout=self._timeout)
        replies = [_outcome(reply) for reply in sent]
        failures = [reply for reply in replies if isinstance(reply, RedisError)]
        if failures and len(failures) == len(replies):
            raise LeasesUnavailable(str(failures[0])) from failures[0]
        return [None if isinstance(reply, RedisError) else reply == 1 for reply in replies]

    async def release(self, resource: str, owner: str) -> None:
        """As the port says."""
        await self._run(self._release, [self._keys.lease(resource)], owner)

    async def remove(self, resource: str) -> None:
        """As the port says."""
        try:
            await within(self._timeout, self._link.send("UNLINK", self._keys.lease(resource)))
        except RedisError as error:
            raise LeasesUnavailable(str(error)) from error

    async def read(self, resources: Sequence[str]) -> list[Lease | None]:
        """As the port says."""
        replies = await self._run(self._read, map(self._keys.lease, resources))
        return [
            _lease(resource, reply) if reply else None
            for resource, reply in zip(resources, replies, strict=True)
        ]

    async def announce(self, member: Member, ttl: float) -> bool:
        """As the port says."""
        said = replace(member, skew=self._skew)
        facts = (member.node_id, member.owner, _ms(ttl), _facts(said), _facts(member.left()))
        sent = now()
        [[deposed, theirs]] = await self._run(self._announce, [self._keys.members()], *facts)
        if (took := now() - sent) < _PROMPT:
            self._skew = round(sent + took / 2 - theirs / 1000, 1)
        return bool(deposed)

    async def members(self) -> list[Member]:
        """As the port says."""
        [reply] = await self._run(self._members, [self._keys.members()])
        return sorted(map(_member, reply), key=lambda member: member.node_id)

    async def silent(self, ttl: float, since: float) -> list[Member]:
        """As the port says."""
        [reply] = await self._run(self._silent, [self._keys.members()], _ms(ttl - since))
        return sorted(map(_member, reply), key=lambda member: member.node_id)

    async def depose(self, member: Member, ttl: float, since: float) -> bool:
        """As the port says."""
        facts = (member.node_id, member.owner, _ms(ttl - since), _facts(member.left()), _ms(ttl))
        [reply] = await self._run(self._depose, [self._keys.members()], *facts)
        return bool(reply)

    async def withdraw(self, owner: str) -> None:
        """As the port says."""
        await self._run(self._withdraw, [self._keys.members()], owner.partition("/")[0], owner)

    async def generation(self, name: str, digest: str) -> int:
        """As the port says."""
        [reply] = await self._run(self._generation, [self._keys.generation(name)], digest)
        return int(reply)

    async def _run(self, script: Script, keys: Sequence[str] | map[str], *args: Part) -> list[Any]:
        """Run a script once a key."""
        return await self._all(script.send((key,), args) for key in keys)

    async def _all(self, replies: Iterable[Awaitable[Any]]) -> list[Any]:
        """Wait for all of them, under one deadline."""
        try:
            return list(await within(self._timeout, asyncio.gather(*replies)))
        except RedisError as error:
            raise LeasesUnavailable(str(error)) from error


def _outcome(reply: asyncio.Future[Any]) -> Any:
    """What was answered, or the RedisError; no answer yet is one."""
    if not reply.done():
        reply.cancel()
        return RedisOutcomeUnknown("no answer from Redis in time")
    error = reply.exception()
    if error is not None and not isinstance(error, RedisError):
        raise error
    return error or reply.result()


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _lease(resource: str, reply: list[Any]) -> Lease:
    owner, epoch, left = reply
    return Lease(resource, owner.decode(), epoch, left / 1000)


def _facts(member: Member) -> bytes:
    facts = [member.owner, member.node_id, sorted(member.roles), member.address, member.kafka]
    return orjson.dumps([*facts, member.version, member.skew] if member.version else facts)


def _member(announcement: bytes) -> Member:
    # What later versions add comes behind.
    owner, node_id, roles, address, kafka, *more = orjson.loads(announcement)
    return Member(owner, node_id, frozenset(roles), address, kafka, *more[:2])
