"""Resource use of processes and Redis, measured from outside."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.chaos.deployment import Deployment, Node
from tests.soak.series import Series

_MB: Final = 1 << 20
_PAUSE: Final = 2.0
_LOGS: Final = "*:log"


class Probes:
    """Measures repeatedly; a restarted process begins a new series."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._series: dict[tuple[object, ...], Series] = {}

    @property
    def series(self) -> list[Series]:
        """Returns all series."""
        return list(self._series.values())

    async def run(self) -> None:
        """Measures until it is cancelled."""
        loop = asyncio.get_running_loop()
        async with Redis.from_url(self._deployment.redis.url) as redis:
            while True:
                for node in self._deployment.nodes:
                    self._read_process(node, loop.time())
                with contextlib.suppress(OSError, RedisError):  # it is being restarted
                    await self._read_redis(redis, loop.time())
                await asyncio.sleep(_PAUSE)

    def _read_process(self, node: Node, at: float) -> None:
        process = node.serve.process
        if process is None:
            return
        with contextlib.suppress(OSError, IndexError):  # it has just ended
            folder = Path(f"/proc/{process.pid}")
            pages = int((folder / "statm").read_text().split()[1])
            self._add((node.name, process.pid), f"{node.name} memory", "MB", 8.0, at, pages * 4096 / _MB)
            files = len(list((folder / "fd").iterdir()))
            self._add((node.name, process.pid), f"{node.name} files", "", 20.0, at, files)

    async def _read_redis(self, redis: Redis, at: float) -> None:
        lengths: Counter[str] = Counter()
        async for key in redis.scan_iter(match=_LOGS, count=500):
            lengths[_kind(key.decode())] += await redis.xlen(key)
        used = (await redis.info("memory"))["used_memory"]
        self._add(("redis",), "Redis memory", "MB", 16.0, at, used / _MB)
        for kind, length in lengths.items():
            self._add(("redis", kind), f"entries in logs: {kind}", "", 3000.0, at, length)

    def _add(
        self, where: tuple[object, ...], name: str, unit: str, slack: float, at: float, value: float
    ) -> None:
        series = self._series.setdefault((*where, name), Series(name, unit, slack))
        series.add(at, value)


def longest(several: list[Series]) -> Iterator[Series]:
    """Returns, for each name, the series with the longest duration."""
    best: dict[str, Series] = {}
    for one in several:
        if one.name not in best or one.seconds > best[one.name].seconds:
            best[one.name] = one
    yield from sorted(best.values(), key=lambda one: one.name)


def _kind(key: str) -> str:
    """Returns the kind of a key: `sharebroker:{share-coordinator:7}:log` belongs to the share-coordinator."""
    return key.partition("{")[2].partition("}")[0].partition(":")[0] or key
