"""One link for all primaries of a Redis Cluster.

Keys that are used together share a hash tag, so every command and script has one slot and one primary. The
link refreshes its slot table periodically. It refreshes the table at once when a node is unreachable or
rejects a slot. Until then, commands for the slot fail with RedisUnavailable, and the caller retries them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from typing_extensions import override

from sharebroker_server.aio import Tasks
from sharebroker_server.redis_link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.port import (
    Link,
    Part,
    RedisError,
    RedisOutcomeUnknown,
    RedisRefused,
    RedisUnavailable,
    Script,
    pass_on,
)
from sharebroker_server.redis_link.server import Target, one_shot

SLOTS: Final = 16384


def slot_of(key: bytes | str) -> int:
    """Returns the slot of a key; keys with the same hash tag have the same slot."""
    from redis.crc import key_slot  # imports OpenTelemetry

    return key_slot(key.encode() if isinstance(key, str) else key)


@dataclass(frozen=True, slots=True)
class SlotRange:
    """Slots `first` to `last`, with the primary that serves them and its replicas."""

    first: int
    last: int
    primary: Target
    replicas: tuple[Target, ...]


def read_slots(reply: Sequence[Any], queried: Target) -> Iterator[SlotRange]:
    """Reads the response to CLUSTER SLOTS. A node without an address of its own is `queried`."""
    for first, last, primary, *replicas in reply:
        yield SlotRange(
            first, last, _target(primary, queried), tuple(_target(node, queried) for node in replicas)
        )


def _target(node: Sequence[Any], queried: Target) -> Target:
    host = node[0].decode() if node[0] else ""
    return queried.at(host if host not in ("", "?") else queried.host, node[1])


_log = structlog.get_logger()

_PAUSE: Final = 0.2
"""Minimum seconds between two requests for the slot table."""

_REFRESH_INTERVAL: Final = 2.0
"""Seconds between two refreshes without a reason: a frozen node reports no error."""

_FINAL_ERRORS: Final = frozenset({"WRONGPASS", "NOAUTH", "NOPERM"})

_WRONG_NODE: Final = frozenset({"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"})
"""Error codes of a node that did not execute the command and would reject it again."""


class ClusterLink(Link):
    """Link to a Redis Cluster; create it with `connect`. `seeds` are the first nodes to query.

    A promotion or a move of slots counts as a change of the server incarnation.
    """

    def __init__(self, seeds: Sequence[Target], settings: LinkSettings) -> None:
        self.on_new_server: list[Callable[[], None]] = []
        self._seeds = seeds
        self._settings = replace(settings, in_cluster=True)
        self._loop = asyncio.get_running_loop()
        self._links: dict[Target, RedisLink] = {}
        self._nodes: list[Target] = [*seeds]
        self._owners: list[RedisLink | None] = [None] * SLOTS
        self._past_incarnations = 0
        self._scripts: list[ClusterScript] = []
        self._refresh = asyncio.Event()
        self._tasks = Tasks(lambda error: _log.error("Redis Cluster refresh failed", error=repr(error)))
        self._why_down = "no node responds"

    @classmethod
    async def connect(
        cls, seeds: Sequence[Target], *, timeout: float = 5.0, settings: LinkSettings | None = None
    ) -> ClusterLink:
        """Connects to all primaries, with retries for `timeout` seconds.

        Raises RedisUnavailable after that time, RedisRefused (a wrong password) at once.
        """
        link = cls(seeds, settings or LinkSettings())
        try:
            async with asyncio.timeout(timeout):
                await link._load_slots(retry_refused=False)
                link._tasks.spawn(link._keep_slots_fresh())
                await link._all_ready()
        except TimeoutError:
            reason = link._reason()
            await link.close()
            raise RedisUnavailable(f"no Redis Cluster at {link}: {reason}") from None
        except BaseException:
            await link.close()
            raise
        return link

    def __str__(self) -> str:
        return ", ".join(map(str, self._seeds))

    @override
    @property
    def connected(self) -> bool:
        return None not in self._owners and all(link.connected for link in self._links.values())

    @override
    @property
    def server_incarnation(self) -> int:
        return self._past_incarnations + sum(link.server_incarnation for link in self._links.values())

    @override
    @property
    def nodes(self) -> Sequence[RedisLink]:
        return list(self._links.values())

    @override
    async def ready(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._all_ready()
        except TimeoutError:
            raise RedisUnavailable(f"no Redis Cluster at {self}: {self._reason()}") from None

    @override
    def send(self, command: Part, *parts: Part) -> asyncio.Future[Any]:
        owner = self._owner(parts[0])
        return self._no_owner() if owner is None else self._with_routing_errors(owner.send(command, *parts))

    @override
    def script(self, source: str, *, replicated: bool = False) -> Script:
        script = ClusterScript(self, source, replicated)
        self._scripts.append(script)
        for link in self._links.values():
            script.load(link)
        return script

    @override
    async def close(self) -> None:
        await self._tasks.stop()
        links = list(self._links.values())
        self._links.clear()
        self._owners = [None] * SLOTS
        self._why_down = "the link was closed"
        await asyncio.gather(*(link.close() for link in links))

    def _owner(self, key: Part) -> RedisLink | None:
        return self._owners[slot_of(str(key) if isinstance(key, int) else key)]

    def _no_owner(self) -> asyncio.Future[Any]:
        self._refresh.set()
        reply: asyncio.Future[Any] = self._loop.create_future()
        reply.set_exception(RedisUnavailable(f"no node of the Redis Cluster at {self} serves this slot"))
        return reply

    def _with_routing_errors(self, reply: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """Returns the reply; the error of a wrong node becomes RedisUnavailable."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        reply.add_done_callback(lambda done: self._resolve(answer, done))
        return answer

    def _resolve(self, answer: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        error = done.exception()
        if isinstance(error, RedisRefused) and error.code in _WRONG_NODE:
            error = RedisUnavailable(f"the Redis Cluster is changing: {error}")
        if isinstance(error, RedisUnavailable | RedisOutcomeUnknown):
            self._refresh.set()
        pass_on(done, error, answer)

    async def _keep_slots_fresh(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_INTERVAL if self.connected else _PAUSE):
                    await self._refresh.wait()
            self._refresh.clear()
            await self._load_slots(retry_refused=True)
            await asyncio.sleep(_PAUSE)

    async def _load_slots(self, *, retry_refused: bool) -> None:
        """Queries nodes until one returns the slot table. Raises RedisRefused unless `retry_refused`."""
        while True:
            for target in list(self._nodes):
                if await self._load_from(target, retry_refused=retry_refused):
                    return
            await asyncio.sleep(_PAUSE)

    async def _load_from(self, target: Target, *, retry_refused: bool) -> bool:
        try:
            ranges = await self._query(target)
        except (OSError, RedisError) as error:  # TimeoutError is an OSError
            if isinstance(error, RedisRefused) and error.code in _FINAL_ERRORS and not retry_refused:
                raise
            self._why_down = f"{target}: {str(error) or 'no response'}"
            return False
        if ranges:
            self._apply(ranges)
            # The node that responded is queried first next time.
            nodes = (node for each in ranges for node in (each.primary, *each.replicas))
            self._nodes = list(dict.fromkeys([target, *nodes, *self._seeds]))
        return bool(ranges)

    async def _query(self, target: Target) -> list[SlotRange]:
        """Returns a node's slot table, or [] if the cluster is down from the node's point of view.

        That is also so if the node is partitioned from most others.
        """
        async with one_shot(target) as client:
            slots = await client.execute_command("CLUSTER", "SLOTS")
            info = await client.execute_command("CLUSTER", "INFO")
        if b"cluster_state:ok" not in info:
            self._why_down = f"{target} reports that the cluster is down"
            return []
        return list(read_slots(slots, target))

    def _apply(self, ranges: Iterable[SlotRange]) -> None:
        """Opens links to new primaries and closes links to nodes that serve no slot now."""
        owners: list[RedisLink | None] = [None] * SLOTS
        links: dict[Target, RedisLink] = {}
        for each in ranges:
            link = links.get(each.primary) or self._links.get(each.primary) or self._open(each.primary)
            links[each.primary] = link
            owners[each.first : each.last + 1] = [link] * (each.last + 1 - each.first)
        moved = any(old not in (None, new) for old, new in zip(self._owners, owners, strict=True))
        unused = [link for target, link in self._links.items() if target not in links]
        self._past_incarnations += sum(link.server_incarnation for link in unused) + moved
        self._links, self._owners = links, owners
        for link in unused:
            self._tasks.spawn(link.close())
        if moved:
            _log.warning("Redis Cluster slots moved", cluster=str(self))
            self._notify_new_incarnation()

    def _open(self, target: Target) -> RedisLink:
        link = RedisLink(target, self._settings)
        link.on_new_server.append(self._notify_new_incarnation)
        for script in self._scripts:
            script.load(link)
        link.begin()
        return link

    def _notify_new_incarnation(self) -> None:
        for callback in self.on_new_server:
            self._loop.call_soon(callback)

    async def _all_ready(self) -> None:
        while not self.connected:  # the set of links may change meanwhile
            for link in self.nodes:
                with contextlib.suppress(RedisUnavailable):
                    await link.ready(_PAUSE)
            await asyncio.sleep(_PAUSE / 4)

    def _reason(self) -> str:
        down = [f"{target}: {link.why_down}" for target, link in self._links.items() if not link.connected]
        return "; ".join(down) or self._why_down


class ClusterScript(Script):
    """Lua script of a cluster; create it with `ClusterLink.script`."""

    __slots__ = ("_link", "_replicated", "_scripts", "_source")

    def __init__(self, link: ClusterLink, source: str, replicated: bool) -> None:
        self._link = link
        self._source = source
        self._replicated = replicated
        self._scripts: dict[RedisLink, Script] = {}

    def load(self, node: RedisLink) -> None:
        """Registers the script at one more node."""
        self._scripts = {open_: script for open_, script in self._scripts.items() if not open_.closed}
        self._scripts[node] = node.script(self._source, replicated=self._replicated)

    @override
    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        owner = self._link._owner(keys[0])
        return (
            self._link._no_owner()
            if owner is None
            else self._link._with_routing_errors(self._scripts[owner].send(keys, args))
        )
