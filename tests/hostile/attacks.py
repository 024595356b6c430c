"""The attacks: each is a coroutine that ends when the server has answered, or after `seconds`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from tests.hostile import payloads
from tests.support.client import connected
from tests.testkit.brokers import Cluster

Send = Callable[[float], Awaitable[None]]


MAX_WAIT: Final = 1.0
"""Seconds that an honest client may wait for a publish or an acknowledgement."""

MAX_MEMORY: Final = 800 << 20
"""Bytes of a process with all roles under an attack.

They include 408 MiB of late requests, prompt ones and the server itself."""

CHART_MEMORY: Final = 1 << 30
"""Bytes of a process in the chart: the limit for the attacks that need the most."""


@dataclass(frozen=True)
class Attack:
    """An attack: its name, and how it is prepared; what `prepare` returns runs for some seconds.

    With a larger `max_wait` in seconds, a larger `max_memory` in bytes, or `cancels`, it is an exception that
    LIMITS describes. `cancels`: gRPC may cancel calls of the honest client.
    """

    name: str
    prepare: Callable[[Cluster], Awaitable[Send]]
    max_wait: float = MAX_WAIT
    max_memory: int = MAX_MEMORY
    cancels: bool = False


async def exchange(address: str, requests: Iterable[bytes], *, repeat: bool = False) -> None:
    """Sends requests on one connection, all at once, and reads their responses; then again if `repeat`."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    requests = list(requests)
    try:
        while True:
            writer.writelines(requests)
            for _ in requests:
                size = int.from_bytes(await reader.readexactly(4))
                while size:
                    size -= len(await reader.read(min(size, 1 << 20)))
            if not repeat:
                return
    finally:
        writer.transport.abort()


async def crowd(address: str, connections: Iterable[Iterable[bytes]], seconds: float) -> None:
    """Runs `exchange` repeatedly on several connections."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(exchange(address, some, repeat=True) for some in connections))


async def topic_of(cluster: Cluster, partitions: int) -> str:
    """Creates a topic; returns its name once each partition has a leader."""
    async with connected(cluster.address) as client:
        name, _ = await client.create(partitions)
        await asyncio.gather(*(client.publish(name, ["x"], partition=n) for n in range(partitions)))
        return name


def produce_attack(name: str, partitions: Iterable[int], batch: bytes, connections: int = 1) -> Attack:
    """Returns an attack that sends one Produce request again and again on each connection."""
    named = list(partitions)

    async def prepare(cluster: Cluster) -> Send:
        topic = await topic_of(cluster, max(named) + 1)
        request = payloads.produce(topic, named, batch)
        return lambda seconds: crowd(cluster.kafka, [[request]] * connections, seconds)

    return Attack(name, prepare)


def produce_attacks() -> Iterator[Attack]:
    """Yields the attacks with compressed batches."""
    small = payloads.repeated()
    yield produce_attack("100 partitions, each 250,000 equal records", range(100), small)
    yield produce_attack("one partition named 1,000 times", [0] * 1000, small)
    valid = payloads.consecutive()
    yield produce_attack("100 partitions, each 250,000 valid records", range(100), valid)
    yield produce_attack("the same on 20 connections", range(20), valid, 20)
    yield produce_attack(
        "20 connections, 100 batches of 5,000 records", range(100), payloads.consecutive(5000), 20
    )
    yield produce_attack(
        "records with 28 headers", range(20), payloads.consecutive(RECORDS_WITH_HEADERS, 28), 4
    )
    yield produce_attack("one record with 8,000,000 headers", range(4), payloads.one_record(8_000_000), 4)


RECORDS_WITH_HEADERS = 250_000


def catalog_attacks() -> Iterator[Attack]:
    """Yields the attacks with many topics and partitions."""
    many = payloads.create_topics({f"many-{n}": 1 for n in range(5000)})
    checked = payloads.create_topics({f"checked-{n}": 1 for n in range(10_000)}, validate_only=True)
    large = [payloads.create_topics({f"large-{n}": 10_000}) for n in range(9)]

    async def creation(cluster: Cluster) -> Send:
        async def send(seconds: float) -> None:
            await exchange(cluster.kafka, [many, *large])

        return send

    async def metadata(cluster: Cluster) -> Send:
        await exchange(cluster.kafka, [many, *large])
        return lambda seconds: crowd(cluster.kafka, [[payloads.all_metadata()]] * 50, seconds)

    single = [payloads.create_topics({f"single-{n}": 1}) for n in range(5000)]

    async def one_by_one(cluster: Cluster) -> Send:
        async def send(seconds: float) -> None:
            parts = [[*single[n::10], *large[n : n + 1]] for n in range(10)]
            await asyncio.gather(*(exchange(cluster.kafka, part) for part in parts))

        return send

    yield Attack("5,000 topics, then 9 with 10,000 partitions", creation)
    yield Attack("the same topics, one for each request", one_by_one)

    async def validation(cluster: Cluster) -> Send:
        return lambda seconds: crowd(cluster.kafka, [[checked]] * 20, seconds)

    async def grpc_metadata(cluster: Cluster) -> Send:
        await exchange(cluster.kafka, [many, *large])

        async def send(seconds: float) -> None:
            async with connected(cluster.address) as client, asyncio.timeout(seconds):
                while True:
                    await asyncio.gather(*(client.admin.Metadata(pb.MetadataRequest()) for _ in range(10)))

        async def bounded(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                await send(seconds)

        return bounded

    yield Attack("10 gRPC calls for all metadata", grpc_metadata)
    yield Attack("20 clients that validate 10,000 topics", validation)
    yield Attack("50 clients that ask for all of this metadata", metadata)
