"""Kafka clients that send invalid requests, stall or flood: the listener survives, and valid clients
continue.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.kafka.call import FETCH_MEMORY
from sharebroker_server.kafka_wire.frames import codec_of, request_frame
from sharebroker_server.kafka_wire.schema import api_schema, message_class
from tests.support import kafka_client
from tests.support.client import connected, unique
from tests.support.kafka_client import KafkaClient, part
from tests.testkit.brokers import Cluster, one_process
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch

pytestmark = [
    pytest.mark.xdist_group("hostile-kafka"),  # one server for all tests
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]

PRODUCE, FETCH, METADATA = 0, 1, 3
LARGEST: Final = 10_000_000
ROOM: Final = 20_000_000
PROPERTIES: Final = (
    f"socket.request.max.bytes={LARGEST}",
    f"queued.max.request.bytes={ROOM}",
    "fetch.max.bytes=3000000",
    "max.connections=5500",
)
LARGE: Final = 900_000
"""Bytes of a record that slow readers fetch."""

TRY_AGAIN: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE)

MAY_GROW: Final = 80_000_000
"""Bytes of memory that a flood may cost: for requests, for responses, and for what each client may send
ahead.
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = [option for pair in PROPERTIES for option in ("--set", pair)]
    with one_process("--fsync", "everysec", *options) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def files() -> None:
    """Raises the limit of open files to the number of connections that a test opens."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 6500:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Honest:
    """A client that produces and fetches on one connection; every request must succeed.

    It retries retriable errors, like any client: a busy machine may renew its leases late.
    """

    def __init__(self, kafka: KafkaClient, topic: str) -> None:
        self._rounds = 0
        self._kafka = kafka
        self._topic = topic
        self._working = asyncio.create_task(self._work())

    async def goes_on(self, rounds: int = 20) -> None:
        goal = self._rounds + rounds
        await eventually(lambda: self._rounds >= goal or self._working.done(), 60.0)
        if self._working.done():
            self._working.result()

    async def stop(self) -> None:
        self._working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._working

    async def _work(self) -> None:
        while True:
            self._rounds += await self._round()
            await asyncio.sleep(0.002)

    async def _round(self) -> bool:
        data = part(PRODUCE, "PartitionProduceData", index=0, records=batch(1))
        topic = part(PRODUCE, "TopicProduceData", name=self._topic, partition_data=[data])
        produced = await self._kafka.ask(PRODUCE, 9, acks=-1, timeout_ms=20_000, topic_data=[topic])
        (appended,) = produced.responses[0].partition_responses
        if appended.error_code in TRY_AGAIN:
            return False
        assert appended.error_code == 0
        fetched = await fetch(self._kafka, self._topic, appended.base_offset, 10_000)
        [found] = fetched.responses[0].partitions
        if found.error_code in TRY_AGAIN:
            return False
        assert found.error_code == 0
        assert found.records
        return True


@pytest.fixture
async def honest(cluster: Cluster) -> AsyncIterator[Honest]:
    async with connected(cluster.address) as client, kafka_client.connected(cluster.kafka) as kafka:
        topic, _ = await client.create()
        honest = Honest(kafka, topic)
        await honest.goes_on(3)
        yield honest
        await honest.goes_on(3)
        await honest.stop()


class Crowd:
    """The connections of one attack."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        self.clients: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def come(self, number: int) -> None:
        for _ in range(number):
            self.clients.append(await asyncio.open_connection(self._host, self._port, limit=4096))

    def send(self, *data: bytes) -> None:
        """Each client in turn sends one of these byte strings."""
        for number, (_, writer) in enumerate(self.clients):
            writer.write(data[number % len(data)])

    async def all_closed(self) -> None:
        """Waits until the server has closed every connection, whatever it sent before."""
        async with asyncio.timeout(30):
            for reader, _ in self.clients:
                with contextlib.suppress(ConnectionError):
                    while await reader.read(65536):
                        pass

    async def leave(self) -> None:
        for _, writer in self.clients:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for _, writer in self.clients), return_exceptions=True)
        self.clients.clear()


@pytest.fixture
async def crowd(cluster: Cluster) -> AsyncIterator[Crowd]:
    crowd = Crowd(cluster.kafka)
    yield crowd
    await crowd.leave()


def memory(cluster: Cluster) -> int:
    """Returns the bytes of memory that the server uses."""
    (serve,) = cluster.processes
    assert serve.process is not None
    status = Path(f"/proc/{serve.process.pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def closed(cluster: Cluster) -> int:
    """Returns how many log lines report a closed connection."""
    return cluster.processes[0].log.count("kafka connection closed")


async def fetch(kafka: KafkaClient, topic: str, offset: int, most: int) -> Any:
    return await kafka.ask(FETCH, 11, **_fetch(topic, offset, most))


def _fetch(topic: str, offset: int, most: int) -> dict[str, Any]:
    request = part(FETCH, "FetchPartition", partition=0, fetch_offset=offset, partition_max_bytes=most)
    topics = [part(FETCH, "FetchTopic", topic=topic, partitions=[request])]
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": most, "topics": topics}


def framed(key: int, version: int, name: str, **fields: Any) -> bytes:
    """Returns a framed request as bytes."""
    message = message_class(api_schema(key).request)(**fields)
    return bytes(request_frame(1, "hostile", codec_of(key, version), message))


METADATA_FRAME: Final = framed(METADATA, 1, "MetadataRequest", topics=[])
LIES: Final = {
    "garbage": random.Random(4).randbytes(4096),
    "HTTP": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "too large": (LARGEST + 1).to_bytes(4) + b"x" * 1000,
    "negative": b"\xff\xff\xff\xff" + b"x" * 1000,
    "unknown key": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, METADATA, 99, 1, -1),
    "an array that lies": struct.pack(">ihhihi", 14, METADATA, 1, 1, -1, 0x7FFFFFFF),
    "a string that lies": struct.pack(">ihhihih", 16, METADATA, 1, 1, -1, 1, 0x7FFF),
    "too many entries": struct.pack(">ihhihi", 10 + 4 + 400_000, METADATA, 1, 1, -1, 200_000)
    + bytes(400_000),
}


async def test_malformed_requests_end_connections_and_log_few_lines(
    cluster: Cluster, honest: Honest, crowd: Crowd
) -> None:
    before, lines = memory(cluster), closed(cluster)
    await crowd.come(300)
    crowd.send(*LIES.values())
    await crowd.all_closed()
    await honest.goes_on()
    assert memory(cluster) - before < MAY_GROW
    assert len(LIES) <= closed(cluster) - lines < 60


async def test_incomplete_requests_do_not_delay_other_clients(
    cluster: Cluster, honest: Honest, crowd: Crowd
) -> None:
    """Each frame announces a large request; together they exceed the memory budget."""
    before = memory(cluster)
    await crowd.come(100)
    crowd.send(LARGEST.to_bytes(4) + b"x" * 100, METADATA_FRAME[:-1], b"\0\0", b"")
    await honest.goes_on()
    assert memory(cluster) - before < MAY_GROW


async def test_stalled_large_requests_use_bounded_memory(
    cluster: Cluster, honest: Honest, crowd: Crowd
) -> None:
    before = memory(cluster)
    await crowd.come(30)
    crowd.send(LARGEST.to_bytes(4) + bytes(LARGEST - 1))
    await honest.goes_on(100)
    assert memory(cluster) - before < MAY_GROW


async def test_client_that_never_reads_is_no_longer_served(
    cluster: Cluster, honest: Honest, crowd: Crowd
) -> None:
    before = memory(cluster)
    await crowd.come(10)
    crowd.send(METADATA_FRAME * 5000)
    await honest.goes_on(100)
    assert memory(cluster) - before < MAY_GROW


async def test_unread_large_responses_use_bounded_memory(
    cluster: Cluster, honest: Honest, crowd: Crowd
) -> None:
    async with connected(cluster.address) as client:
        topic, _ = await client.create()
        for _ in range(4):
            await client.publish(topic, ["x" * LARGE])
    before = memory(cluster)
    await crowd.come(400)
    crowd.send(framed(FETCH, 11, "FetchRequest", **_fetch(topic, 0, LARGEST)) * 3)
    await honest.goes_on(100)
    assert memory(cluster) - before < MAY_GROW + 6 * FETCH_MEMORY, "of more than 1 GB: records and copies"


async def test_requests_with_very_many_entries_are_served(
    cluster: Cluster, honest: Honest, crowd: Crowd
) -> None:
    before = memory(cluster)
    names = [part(METADATA, "MetadataRequestTopic", name="")] * 50_000
    await crowd.come(5)
    crowd.send(framed(METADATA, 1, "MetadataRequest", topics=names))
    await honest.goes_on(5)
    assert memory(cluster) - before < MAY_GROW


async def test_many_idle_connections_cost_little(cluster: Cluster, honest: Honest, crowd: Crowd) -> None:
    before, number = memory(cluster), 5000
    await crowd.come(number)
    crowd.send(METADATA_FRAME)
    for reader, _ in crowd.clients:
        await reader.readexactly(4)
    await honest.goes_on()
    assert (memory(cluster) - before) / number < 10_000


async def test_connections_beyond_the_limit_are_closed_at_once(
    cluster: Cluster, honest: Honest, crowd: Crowd
) -> None:
    await crowd.come(5550)
    await honest.goes_on()
    assert "kafka connection rejected" in cluster.processes[0].log
    await crowd.leave()

    async def there_is_room() -> bool:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            async with kafka_client.connected(cluster.kafka) as kafka:
                await kafka.ask(METADATA, 1, topics=[])
                return True
        return False

    await eventually(there_is_room)


async def storm(
    crowd: Crowd, data: bytes, leave: Callable[[asyncio.StreamWriter], Awaitable[None] | None]
) -> None:
    for _ in range(20):
        await crowd.come(50)
        for _, writer in crowd.clients[-50:]:
            writer.write(data)
            leave(writer)
        await asyncio.sleep(0)


@pytest.mark.parametrize("data", [b"", METADATA_FRAME, METADATA_FRAME[:7]], ids=["silent", "asking", "half"])
async def test_connection_storm_does_not_disturb_other_clients(
    cluster: Cluster, honest: Honest, crowd: Crowd, data: bytes
) -> None:
    before = memory(cluster)
    await storm(crowd, data, lambda writer: writer.close())
    await storm(crowd, data, lambda writer: writer.transport.abort())
    await storm(crowd, data, lambda writer: writer.write_eof())
    await honest.goes_on()
    assert memory(cluster) - before < MAY_GROW


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed since it was listed
        return ""


async def test_open_connections_are_closed_at_shutdown(cluster: Cluster) -> None:
    """Reads the open sockets of the server process."""
    (serve,) = cluster.processes
    assert serve.process is not None
    folder = Path(f"/proc/{serve.process.pid}/fd")

    def sockets() -> int:
        return sum(_target(link).startswith("socket:") for link in folder.iterdir())

    await eventually(lambda: sockets() < 60)


async def test_server_stops_in_order_under_load(cluster: Cluster, crowd: Crowd) -> None:
    """Runs last: connections are idle, waiting, busy, stalled and unread when SIGTERM arrives."""
    await crowd.come(200)
    topic = unique("topic")
    waiting = framed(FETCH, 11, "FetchRequest", **{**_fetch(topic, 0, 100), "max_wait_ms": 60_000})
    crowd.send(b"", waiting, METADATA_FRAME * 5000, LARGEST.to_bytes(4) + b"x", METADATA_FRAME[:-1])
    (serve,) = cluster.processes
    assert await asyncio.to_thread(serve.stop) == 0
    await crowd.all_closed()
