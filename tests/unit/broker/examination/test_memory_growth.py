"""The samples of the memory of each server, and the forecast from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from sharebroker_server.broker.core.diagnosis import Level
from sharebroker_server.broker.examination.memory_growth import forecast_memory
from sharebroker_server.redis_link.port import Link

MIB = 1 << 20


@dataclass
class Node:
    """A server whose memory grows with each sample."""

    used: int
    growth: int
    commands: list[tuple[str, ...]] = field(default_factory=list)

    async def call(self, *command: str, timeout: float) -> bytes:
        self.commands.append(command)
        self.used += self.growth
        return f"# Memory\r\nused_memory:{self.used}\r\nmaxmemory:{100 * MIB}\r\n".encode()


@dataclass
class Nodes:
    nodes: list[Any]


async def test_each_server_is_sampled_twice_and_named_in_its_finding() -> None:
    nodes = [Node(MIB, 0), Node(MIB, 2 * MIB), Node(200 * MIB, 0)]
    found = await forecast_memory(cast("Link", Nodes(nodes)), 0.001)
    assert [(finding.subject, finding.level) for finding in found] == [
        ("redis 1", Level.WARNING),
        ("redis 2", Level.ERROR),
    ]
    assert all(node.commands == [("INFO", "memory")] * 2 for node in nodes)
