"""Samples the memory of Redis twice, and reports when it will be used up (see `core.diagnosis`)."""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker_server.broker.core.diagnosis import Finding, MemoryFacts, of_memory
from sharebroker_server.redis_link.memory import MemorySample
from sharebroker_server.redis_link.port import Link

SAMPLED: Final = 2.0
"""Seconds between the samples."""

_WITHIN: Final = 5.0


async def forecast_memory(link: Link, seconds: float = SAMPLED) -> list[Finding]:
    """Returns the findings about the memory of each server; takes `seconds`. Raises RedisError."""
    clock = asyncio.get_running_loop().time
    started, first = clock(), await _samples(link)
    await asyncio.sleep(seconds)
    second, elapsed = await _samples(link), clock() - started
    facts = [
        MemoryFacts(f"redis {index}", after.used, after.limit, after.used - before.used, elapsed)
        for index, (before, after) in enumerate(zip(first, second, strict=True))
    ]
    return [finding for each in facts for finding in of_memory(each)]


async def _samples(link: Link) -> list[MemorySample]:
    return [MemorySample.from_info(await node.call("INFO", "memory", timeout=_WITHIN)) for node in link.nodes]
