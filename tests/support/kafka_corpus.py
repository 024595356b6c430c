"""Requests that real Kafka clients sent: `python -m tests.support.kafka_corpus` records them again.

It runs librdkafka, kafka-python and Kafka's own tools against a server, with a proxy between them, and keeps
a few small requests of each client, API and version.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from sharebroker_server.kafka_wire.frames import (
    API_VERSIONS,
    FrameSplitter,
    codec_of,
    read_header,
    read_request,
)
from sharebroker_server.kafka_wire.schema import api_schema
from tests.support.kafka_tools import run_tool
from tests.testkit.brokers import one_process
from tests.testkit.servers import free_port

CORPUS: Final = Path(__file__).parent / "kafka_corpus.txt"
LARGEST: Final = 700
EACH: Final = 2
SECONDS: Final = 15.0
_UNKNOWN: Final = "unknown"


class Recorded(NamedTuple):
    """A request without its length, and the software that sent it."""

    software: str
    frame: bytes

    @property
    def line(self) -> str:
        """Returns its line in the file."""
        header = read_header(self.frame)
        name = api_schema(header.api_key).name
        return f"{self.software} {name} {header.version} {self.frame.hex()}"


def corpus() -> Iterator[Recorded]:
    """Returns the recorded requests."""
    for line in CORPUS.read_text().splitlines():
        software, _, _, frame = line.split(" ")
        yield Recorded(software, bytes.fromhex(frame))


class Recorder:
    """A proxy between clients and a server that records the clients' bytes, by connection."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream.split(":")
        self._sent: list[list[bytes]] = []

    @asynccontextmanager
    async def listening(self, address: str) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._connected, *address.split(":"))
        async with server:
            yield

    def chosen(self) -> list[Recorded]:
        """Returns a few small requests of each software, API and version."""
        kinds: dict[tuple[str, int, int], set[bytes]] = {}
        for sent in self._sent:
            frames = _cut(sent)
            software = _software(frames)
            for frame in frames:
                header = read_header(frame)
                if len(frame) <= LARGEST:
                    kinds.setdefault((software, header.api_key, header.version), set()).add(frame)
        return [
            Recorded(software, frame)
            for (software, _, _), frames in sorted(kinds.items())
            for frame in sorted(frames, key=len, reverse=True)[:EACH]
        ]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._upstream)
        sent: list[bytes] = []
        self._sent.append(sent)
        await asyncio.gather(_pipe(reader, back, sent), _pipe(there, writer, []))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: list[bytes]) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            sent.append(data)
            writer.write(data)
            await writer.drain()
    writer.close()


def _cut(sent: Iterable[bytes]) -> list[bytes]:
    frames: list[bytes] = []
    splitter = FrameSplitter(1 << 30)
    for data in sent:
        splitter.split(data, frames)
    return frames


def _software(frames: Iterable[bytes]) -> str:
    """Returns the software name in the client's ApiVersions request."""
    for frame in frames:
        header = read_header(frame)
        if header.api_key == API_VERSIONS and 3 <= header.version <= 5:
            request: Any = read_request(frame, header, codec_of(API_VERSIONS, header.version))
            return f"{request.client_software_name}-{request.client_software_version}"
    return _UNKNOWN


async def record() -> list[Recorded]:
    """Runs the clients."""
    own, proxy = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with one_process("--kafka", own, "--kafka-advertise", proxy):
        recorder = Recorder(own)
        async with recorder.listening(proxy):
            for run in (librdkafka, kafka_python, java_tools):
                await asyncio.to_thread(run, proxy)
        return recorder.chosen()


def librdkafka(address: str) -> None:
    """Runs administration, an idempotent and a transactional producer, a plain and a share consumer."""
    servers: dict[str, Any] = {"bootstrap.servers": address}
    admin = AdminClient(servers)
    for future in admin.create_topics([NewTopic("rdkafka", 2, 1)]).values():
        future.result(SECONDS)
    admin.list_topics(timeout=SECONDS)
    topic = ConfigResource(ConfigResource.Type.TOPIC, "rdkafka")
    for future in admin.describe_configs([topic]).values():
        future.result(SECONDS)
    for kind in ({}, {"compression.type": "lz4"}, {"transactional.id": "rdkafka"}):
        producer = Producer({**servers, "enable.idempotence": True, **kind})
        if "transactional.id" in kind:
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
        for number in range(4):
            producer.produce("rdkafka", f"value {number}", f"key {number}", headers={"header": "value"})
        producer.flush(SECONDS)
        if "transactional.id" in kind:
            producer.commit_transaction(SECONDS)
    consumer = Consumer({**servers, "group.id": "absent", "enable.auto.commit": False})
    consumer.assign([TopicPartition("rdkafka", number, OFFSET_BEGINNING) for number in range(2)])
    consumer.consume(8, SECONDS)
    consumer.close()
    with ShareConsumer({**servers, "group.id": "rdkafka"}) as shares:
        shares.subscribe(["rdkafka"])
        shares.poll(3)
        shares.commit_sync(SECONDS)


def kafka_python(address: str) -> None:
    """Runs administration, a producer, a consumer of an assigned partition."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics(["python"])
    admin.describe_topics(["python"])
    admin.close()
    with contextlib.closing(KafkaProducer(bootstrap_servers=address, compression_type="gzip")) as producer:
        for number in range(4):
            producer.send("python", b"value", b"key", headers=[("number", str(number).encode())])
        producer.flush(SECONDS)
    consumer = KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=1000)
    consumer.assign([KafkaTopicPartition("python", 0)])
    consumer.seek_to_beginning()
    list(consumer)
    consumer.close()


def java_tools(address: str) -> None:
    """Runs Kafka's command-line tools."""
    at = ("--bootstrap-server", address)
    group = ("--group", "java")
    topic = ("--topic", "java")
    tools = "org.apache.kafka.tools."
    share = f"{tools}consumer.group.ShareGroupCommand"
    for main, *arguments in (
        (f"{tools}TopicCommand", "--create", *topic, "--partitions", "3", *at),
        (f"{tools}TopicCommand", "--describe", *topic, *at),
        (
            f"{tools}ProducerPerformance",
            *topic,
            "--num-records",
            "20",
            "--record-size",
            "20",
            "--throughput",
            "-1",
            "--bootstrap-server",
            address,
        ),
        (
            "kafka.admin.ConfigCommand",
            "--alter",
            *group_entity(),
            "--add-config",
            "share.auto.offset.reset=earliest",
            *at,
        ),
        ("kafka.admin.ConfigCommand", "--describe", *group_entity(), *at),
        (
            f"{tools}consumer.ConsoleShareConsumer",
            *topic,
            *group,
            "--max-messages",
            "20",
            "--timeout-ms",
            "15000",
            *at,
        ),
        (
            f"{tools}consumer.ConsoleConsumer",
            *topic,
            "--partition",
            "0",
            "--offset",
            "earliest",
            "--timeout-ms",
            "2000",
            *at,
        ),
        (share, "--list", *at),
        (share, "--describe", *group, *at),
        (share, "--describe", "--members", *group, *at),
        (f"{tools}GetOffsetShell", *topic, *at),
        (f"{tools}FeatureCommand", *at, "describe"),
        (f"{tools}BrokerApiVersionsCommand", *at),
        (f"{tools}TransactionsCommand", *at, "list"),
        (share, "--delete", *group, *at),
        (f"{tools}TopicCommand", "--delete", *topic, *at),
    ):
        ran = run_tool(main, *arguments)
        if ran.code:
            sys.stderr.write(f"{ran.command}: {ran.code}\n{ran.out}\n{ran.err}\n")


def group_entity() -> tuple[str, ...]:
    return "--entity-type", "groups", "--entity-name", "java"


def main() -> None:
    """Writes the file."""
    recorded = asyncio.run(record())
    CORPUS.write_text("".join(f"{one.line}\n" for one in recorded))


if __name__ == "__main__":
    main()
