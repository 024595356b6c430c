"""Attacks on the gRPC listener: messages that are unfinished, too large, compressed or full of elements."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

import grpc

from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from tests.hostile import payloads
from tests.hostile.attacks import CHART_MEMORY, MAX_MEMORY, Attack, Send, exchange, topic_of
from tests.hostile.http2 import compressed_calls, unfinished_calls, unread_calls
from tests.support.client import connected
from tests.testkit.brokers import Cluster

MIB: Final = 1 << 20

_PAUSE: Final = 0.05
"""Seconds before a client calls again."""

_PRODUCE: Final = "/sharebroker.gateway.v1.ProduceService/"
_SHARE: Final = "/sharebroker.gateway.v1.ShareService/"
_ADMIN: Final = "/sharebroker.gateway.v1.AdminService/"
_HEALTH: Final = "/grpc.health.v1.Health/Check"

_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # a connection for each channel
)


async def _again(client: Callable[[], Awaitable[None]]) -> None:
    while True:
        with contextlib.suppress(OSError, EOFError, grpc.aio.AioRpcError, ExceptionGroup):
            await client()
        await asyncio.sleep(_PAUSE)


def _attack(
    name: str, clients: Callable[[str], list[Callable[[], Awaitable[None]]]], max_memory: int = MAX_MEMORY
) -> Attack:
    async def prepare(cluster: Cluster) -> Send:
        async def send(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*map(_again, clients(cluster.address)))

        return send

    return Attack(name, prepare, max_memory=max_memory)


def unfinished(name: str, methods: list[str], size: int, connections: int = 1) -> Attack:
    """Returns an attack with calls on each connection that lack the last byte of their message."""
    return _attack(name, lambda address: [lambda: unfinished_calls(address, methods, size)] * connections)


def repeated(
    name: str, methods: list[str], message: bytes, calls: int, max_memory: int = MAX_MEMORY
) -> Attack:
    """Returns an attack of clients, each on a connection of its own, that send a message repeatedly."""

    def client(address: str, method: str) -> Callable[[], Awaitable[None]]:
        async def call() -> None:
            async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
                raw: Any = channel  # the types contain messages only
                while True:
                    sent = raw.unary_unary(method)(message, timeout=60)
                    assert await sent.code() not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
                    await asyncio.sleep(_PAUSE)

        return call

    return _attack(
        name, lambda address: [client(address, methods[n % len(methods)]) for n in range(calls)], max_memory
    )


def heartbeat(size: int) -> bytes:
    """Returns a heartbeat of a new member with a subscription of about `size` bytes."""
    names = [f"topic-{n}" for n in range(size // 14)]
    request = groups.ShareGroupHeartbeatRequest(
        group_id="hostile", member_epoch=0, subscribed_topic_names=groups.TopicNames(names=names)
    )
    return request.SerializeToString()


_DECODED_PARTITIONS: Final = range(100)


def decoded_records(name: str, clients: int, *, stream: bool) -> Attack:
    """Returns an attack of members that receive 1.5 GiB of records, 100 KiB compressed, decoded.

    Half of the streams do not read.
    """

    async def prepare(cluster: Cluster) -> Send:
        topic = await topic_of(cluster, len(_DECODED_PARTITIONS))
        batch = BatchBuilder(CODECS["zstd"], 16 * MIB)
        for _ in range(15):
            batch.append(0, None, bytes(MIB))
        await exchange(cluster.kafka, [payloads.produce(topic, _DECODED_PARTITIONS, batch.build())])
        async with connected(cluster.address) as client:
            group_id = await client.group()

        async def acquire(reads: bool) -> None:
            async with connected(cluster.address) as client:
                if stream:
                    subscribe = share.ConsumeRequest.Subscribe(group_id=group_id, topics=[topic], decode=True)
                    call = client.share.Consume()
                    await call.write(share.ConsumeRequest(subscribe=subscribe, credit=100_000))
                    while True:
                        await (call.read() if reads else asyncio.sleep(_PAUSE))
                while True:
                    await client.acquire(group_id, topic, 1000, wait=0.0)

        async def send(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*(acquire(bool(n % 2)) for n in range(clients)))

        return send

    return Attack(name, prepare)


_UNREAD_GROUPS: Final = 100
"""Groups of the members that do not read; each has at most 200 members."""


def unread_streams(name: str, streams: int, connections: int) -> Attack:
    """Returns an attack of streams on each connection that request 16 MB of records and read none."""

    async def prepare(cluster: Cluster) -> Send:
        topic = await topic_of(cluster, 1)
        async with connected(cluster.address) as client:
            groups = [await client.group() for _ in range(_UNREAD_GROUPS)]
            for _ in range(20):
                await client.publish(topic, ["x" * 100_000] * 8)
        subscriptions = [
            share.ConsumeRequest.Subscribe(group_id=group_id, topics=[topic], decode=True)
            for group_id in groups
        ]
        messages = [
            share.ConsumeRequest(subscribe=subscribe, credit=1000).SerializeToString()
            for subscribe in subscriptions
        ]

        async def send(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    requests = messages * (streams // _UNREAD_GROUPS)
                    client = partial(unread_calls, cluster.address, _SHARE + "Consume", requests)
                    await asyncio.gather(*(_again(client) for _ in range(connections)))

        return send

    return Attack(name, prepare, max_memory=CHART_MEMORY)


_TWO = b"\x12\0"  # an empty element of field 2
_THREE = b"\x1a\0"  # an empty element of field 3


def grpc_attacks() -> Iterator[Attack]:
    """Yields the attacks."""
    publish = _PRODUCE + "Publish"
    yield unfinished("40 unfinished messages of 16 MiB", [publish] * 40, 16 * MIB)
    yield unfinished("200 unfinished messages of 16 MiB", [publish, _HEALTH] * 100, 16 * MIB)
    yield unfinished("unfinished messages on 100 connections", [publish] * 4, 16 * MIB, 100)
    streams = [_PRODUCE + "ProduceStream", _SHARE + "Consume"]
    yield unfinished("200 unfinished messages of 16 MiB on streams", streams * 100, 16 * MIB)
    packed = gzip.compress(bytes(120 * MIB), 1)
    yield _attack(
        "60 compressed messages of 120 MiB",
        lambda address: [lambda: compressed_calls(address, publish, packed, 60)],
    )
    yield unfinished("8 messages of 120 MiB", [publish] * 8, 120 * MIB)
    joins = [_SHARE + "ShareGroupHeartbeat"]
    yield repeated("8 MiB heartbeats of 60 members", joins, heartbeat(8 * MIB), 60, CHART_MEMORY)
    yield repeated("1 MiB heartbeats of 60 members", joins, heartbeat(600_000), 60)
    yield repeated("8 messages of 8,000,000 elements", [publish, _PRODUCE + "Produce"], _TWO * 8_000_000, 8)
    lists = [_SHARE + "Acknowledge", _ADMIN + "Metadata", _ADMIN + "ListOffsets", _ADMIN + "DeleteRecords"]
    yield repeated("20 messages of 2,000,000 elements", lists, (_TWO + _THREE) * 1_000_000, 20)
    yield repeated("20 messages of 40,000 elements", lists, (_TWO + _THREE) * 20_000, 20)
    yield decoded_records("4 members that acquire 1.5 GiB, decoded", 4, stream=False)
    yield decoded_records("4 streams of 1.5 GiB, decoded", 4, stream=True)


def unread_attacks() -> Iterator[Attack]:
    """Yields the attacks of streams that are not read."""
    yield unread_streams("2,000 unread streams on one connection", 2_000, 1)
    yield unread_streams("2,000 unread streams on 20 connections", 100, 20)
