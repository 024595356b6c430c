"""Links to all primaries of a Redis Cluster, as one.

Keys that are used together share a hash tag, so every command and script has one slot, and one primary. Who
serves which slot is asked now and then, and at once when a node is away or says that a slot is not its own;
until the answer is there, commands for that slot fail as if Redis were away, and who sent them tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from sharebroker_server.aio.tasks import Tasks
from sharebroker_server.redis_link.link.errors import (
    RedisError,
    RedisOutcomeUnknown,
    RedisRefused,
    RedisUnavailable,
)
from sharebroker_server.redis_link.link.link import LinkSettings, RedisLink
from sharebroker_server.redis_link.link.port import Part, Script, within
from sharebroker_server.redis_link.topology.one_shot import ask
from sharebroker_server.redis_link.topology.redis_url import Target
from sharebroker_server.redis_link.topology.slots import SLOTS, Run, read_slots, slot_of

log = logging.getLogger(__name__)

_PAUSE: Final = 0.2
"""Seconds between two questions about who serves what, at least."""

_NOW_AND_THEN: Final = 2.0
"""Seconds after which it is asked without a reason: a node that stands still gives none."""

_FOR_GOOD: Final = frozenset({"WRONGPASS", "NOAUTH", "NOPERM"})

_NOT_HERE: Final = frozenset({"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"})
"""Refusals of a node that has not done what was asked, and would not now."""


class ClusterLink:
    """As the port says; `seeds` are nodes to begin with. A promotion or a move of slots is another server.

    Make it with `connect`.
    """

    def __init__(self, seeds: Sequence[Target], settings: LinkSettings) -> None:
        self.on_new_server: list[Callable[[], None]] = []
        self._seeds = seeds
        self._settings = replace(settings, in_cluster=True)
        self._loop = asyncio.get_running_loop()
        self._links: dict[Target, RedisLink] = {}
        self._known: list[Target] = [*seeds]
        self._owners: list[RedisLink | None] = [None] * SLOTS
        self._passed = 0
        self._scripts: list[ClusterScript] = []
        self._stale = asyncio.Event()
        self._tasks = Tasks(lambda error: log.error("following the Redis Cluster failed: %r", error))
        self._why_down = "no node answers"

    @classmethod
    async def connect(
        cls, seeds: Sequence[Target], *, timeout: float = 5.0, settings: LinkSettings | None = None
    ) -> ClusterLink:
        """Find the cluster and connect to its primaries, trying again for `timeout` seconds.

        Raises RedisUnavailable when that does not go, RedisRefused (a wrong password) at once.
        """
        link = cls(seeds, settings or LinkSettings())
        try:
            async with asyncio.timeout(timeout):
                await link._learn(patient=False)
                link._tasks.spawn(link._follow())
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

    @property
    def connected(self) -> bool:
        """As the port says."""
        return None not in self._owners and all(link.connected for link in self._links.values())

    @property
    def generation(self) -> int:
        """As the port says."""
        return self._passed + sum(link.generation for link in self._links.values())

    @property
    def nodes(self) -> Sequence[RedisLink]:
        """As the port says."""
        return list(self._links.values())

    async def ready(self, timeout: float) -> None:
        """As the port says."""
        try:
            async with asyncio.timeout(timeout):
                await self._all_ready()
        except TimeoutError:
            raise RedisUnavailable(f"no Redis Cluster at {self}: {self._reason()}") from None

    def send(self, command: Part, *parts: Part) -> asyncio.Future[Any]:
        """As the port says."""
        owner = self._owner(parts[0])
        return self._lost() if owner is None else self._guarded(owner.send(command, *parts))

    async def call(self, command: Part, *parts: Part, timeout: float) -> Any:
        """As the port says."""
        return await within(timeout, self.send(command, *parts))

    def script(self, source: str, *, lasting: bool = False) -> Script:
        """As the port says."""
        script = ClusterScript(self, source, lasting)
        self._scripts.append(script)
        for link in self._links.values():
            script.load(link)
        return script

    async def close(self) -> None:
        """As the port says."""
        await self._tasks.stop()
        links = list(self._links.values())
        self._links.clear()
        self._owners = [None] * SLOTS
        self._why_down = "the link was closed"
        await asyncio.gather(*(link.close() for link in links))

    def _owner(self, key: Part) -> RedisLink | None:
        return self._owners[slot_of(str(key) if isinstance(key, int) else key)]

    def _lost(self) -> asyncio.Future[Any]:
        self._stale.set()
        reply: asyncio.Future[Any] = self._loop.create_future()
        reply.set_exception(RedisUnavailable(f"nobody in the Redis Cluster at {self} serves this slot"))
        return reply

    def _guarded(self, reply: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """The reply, with refusals of the wrong node as what they are to whoever asked."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        reply.add_done_callback(lambda done: self._settle(answer, done))
        return answer

    def _settle(self, answer: asyncio.Future[Any], done: asyncio.Future[Any]) -> None:
        error = done.exception()
        if isinstance(error, RedisRefused) and error.code in _NOT_HERE:
            error = RedisUnavailable(f"the Redis Cluster is changing: {error}")
        if isinstance(error, RedisUnavailable | RedisOutcomeUnknown):
            self._stale.set()
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_NOW_AND_THEN if self.connected else _PAUSE):
                    await self._stale.wait()
            self._stale.clear()
            await self._learn(patient=True)
            await asyncio.sleep(_PAUSE)

    async def _learn(self, *, patient: bool) -> None:
        """Ask nodes until one knows who serves what. Raises RedisRefused where not `patient`."""
        while True:
            for target in list(self._known):
                if await self._learned(target, patient=patient):
                    return
            await asyncio.sleep(_PAUSE)

    async def _learned(self, target: Target, *, patient: bool) -> bool:
        try:
            runs = await self._asked(target)
        except (OSError, RedisError) as error:  # TimeoutError is an OSError
            if isinstance(error, RedisRefused) and error.code in _FOR_GOOD and not patient:
                raise
            self._why_down = f"{target}: {str(error) or 'no answer'}"
            return False
        if runs:
            self._apply(runs)
            # Who answers now is asked first next time.
            nodes = (node for run in runs for node in (run.primary, *run.replicas))
            self._known = list(dict.fromkeys([target, *nodes, *self._seeds]))
        return bool(runs)

    async def _asked(self, target: Target) -> list[Run]:
        """What a node knows; nothing of one that is cut off from most others, or whose cluster is down."""
        refusals, [slots, info] = await ask(target, ("CLUSTER", "SLOTS"), ("CLUSTER", "INFO"))
        for refusal in (*refusals, slots, info):
            if isinstance(refusal, RedisError):
                raise refusal
        if b"cluster_state:ok" not in info:
            self._why_down = f"{target} says that the cluster is down"
            return []
        return list(read_slots(slots, target))

    def _apply(self, runs: Iterable[Run]) -> None:
        """Link to those who serve something now, and to nobody else."""
        owners: list[RedisLink | None] = [None] * SLOTS
        links: dict[Target, RedisLink] = {}
        for run in runs:
            link = links.get(run.primary) or self._links.get(run.primary) or self._begun(run.primary)
            links[run.primary] = link
            owners[run.first : run.last + 1] = [link] * (run.last + 1 - run.first)
        moved = any(old not in (None, new) for old, new in zip(self._owners, owners, strict=True))
        left = [link for target, link in self._links.items() if target not in links]
        self._passed += sum(link.generation for link in left) + moved
        self._links, self._owners = links, owners
        for link in left:
            self._tasks.spawn(link.close())
        if moved:
            log.warning("slots of the Redis Cluster at %s are served by another node than before", self)
            self._renewed()

    def _begun(self, target: Target) -> RedisLink:
        link = RedisLink(target, self._settings)
        link.on_new_server.append(self._renewed)
        for script in self._scripts:
            script.load(link)
        link.begin()
        return link

    def _renewed(self) -> None:
        for callback in self.on_new_server:
            self._loop.call_soon(callback)

    async def _all_ready(self) -> None:
        while not self.connected:  # who is to be connected to may change meanwhile
            for link in self.nodes:
                with contextlib.suppress(RedisUnavailable):
                    await link.ready(_PAUSE)
            await asyncio.sleep(_PAUSE / 4)

    def _reason(self) -> str:
        down = [f"{target}: {link.why_down}" for target, link in self._links.items() if not link.connected]
        return "; ".join(down) or self._why_down


class ClusterScript:
    """A Lua script of a cluster; make it with `ClusterLink.script`."""

    __slots__ = ("_lasting", "_link", "_scripts", "_source")

    def __init__(self, link: ClusterLink, source: str, lasting: bool) -> None:
        self._link = link
        self._source = source
        self._lasting = lasting
        self._scripts: dict[RedisLink, Script] = {}

    def load(self, node: RedisLink) -> None:
        """Have it at another node."""
        self._scripts = {known: script for known, script in self._scripts.items() if not known.closed}
        self._scripts[node] = node.script(self._source, lasting=self._lasting)

    def send(self, keys: Sequence[Part], args: Sequence[Part]) -> asyncio.Future[Any]:
        """As the port says."""
        owner = self._link._owner(keys[0])
        return (
            self._link._lost()
            if owner is None
            else self._link._guarded(self._scripts[owner].send(keys, args))
        )

    async def call(self, keys: Sequence[Part], args: Sequence[Part], *, timeout: float) -> Any:
        """As the port says."""
        return await within(timeout, self.send(keys, args))
