"""`sharebroker bench`: measures publishing, consuming and latency with a topic of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

import typer

import sharebroker
from sharebroker import aio
from sharebroker.cli.options import DEFAULT_SERVER, AsJson, Server, examples
from sharebroker.cli.output import print_facts, print_notice
from sharebroker.consumer.config import ConsumerConfig
from sharebroker_protocol import clock
from sharebroker_protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from sharebroker.aio import Admin, ShareConsumer

app = typer.Typer(no_args_is_help=True, help="Measure publishing, consuming and latency.")

_POLL_SECONDS: Final = 1.0
_PATIENCE: Final = 30.0
"""Seconds without a record after which a measurement fails."""
_SHARES: Final = (50.0, 95.0, 99.0)
"""The percentiles that are reported."""
_AT_ONCE: Final = 10_000
"""Records that are published before their outcome is awaited."""

Records = Annotated[int, typer.Option("--records", "-n", min=1, help="The number of records.")]
Size = Annotated[int, typer.Option("--size", min=1, max=1_000_000, help="Bytes of each value.")]
Partitions = Annotated[
    int, typer.Option("--partitions", "-p", min=1, max=1000, help="Partitions of the topic.")
]


@app.command(epilog=examples("sharebroker bench produce", "sharebroker bench produce -n 1000000 --size 1024"))
def produce(
    records: Records = 100_000,
    size: Size = 100,
    partitions: Partitions = 4,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Measure how fast one producer publishes durable records.

    The command creates a topic and deletes it at the end.
    """
    _run(_produce(server, records, size, partitions), as_json)


@app.command(epilog=examples("sharebroker bench consume", "sharebroker bench consume -n 1000000 --json"))
def consume(
    records: Records = 100_000,
    size: Size = 100,
    partitions: Partitions = 4,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Measure how fast one consumer receives and accepts records.

    The command creates a topic and a group, and deletes both at the end. Time counts from the first record.
    """
    _run(_consume(server, records, size, partitions), as_json)


@app.command(
    epilog=examples("sharebroker bench latency", "sharebroker bench latency --rate 1000 --seconds 30 --json")
)
def latency(
    rate: Annotated[float, typer.Option("--rate", min=1, max=100_000, help="Records per second.")] = 100.0,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long to publish.")] = 5.0,
    size: Size = 100,
    partitions: Partitions = 4,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Measure the time from publishing a record to its arrival at a consumer, at a constant rate.

    The command creates a topic and a group, and deletes both at the end.
    """
    _run(_latency(server, rate, seconds, size, partitions), as_json)


def _run(measurement: Coroutine[Any, Any, dict[str, Any]], as_json: bool) -> None:
    print_facts(asyncio.run(measurement), as_json)


@asynccontextmanager
async def _temporary(server: str, partitions: int, *, group: bool) -> AsyncIterator[str]:
    """Creates a topic, and a group of the same name that starts at its first record; deletes both."""
    name = f"bench-{uuid4().hex[:12]}"
    async with aio.Admin(server) as admin:
        await admin.create_topic(name, partitions)
        try:
            if group:
                await admin.alter_group_configs(name, {"share.auto.offset.reset": "earliest"})
            yield name
        finally:
            if group:
                await _delete_group(admin, name)
            await admin.delete_topic(name)


async def _delete_group(admin: Admin, name: str) -> None:
    """Deletes a group with its settings, if a consumer has joined it."""
    try:
        await admin.delete_group(name)
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            print_notice(f"Group {name} is not deleted: {error.message}")
    await admin.alter_group_configs(name, {"share.auto.offset.reset": None})


async def _publish(server: str, topic: str, records: int, size: int) -> float:
    """Publishes records; returns the seconds until all are durable."""
    value = random.Random(size).randbytes(size)
    async with aio.Producer(server, sharebroker.ProducerConfig(linger_ms=5)) as producer:
        await producer.publish(topic, value)  # connects
        start = clock.monotonic()
        for first in range(1, records, _AT_ONCE):
            sent = [await producer.send(topic, value) for _ in range(first, min(first + _AT_ONCE, records))]
            for one in sent:
                await one
        return clock.monotonic() - start


async def _produce(server: str, records: int, size: int, partitions: int) -> dict[str, Any]:
    async with _temporary(server, partitions, group=False) as topic:
        seconds = await _publish(server, topic, records + 1, size)  # the first one is not measured
    return throughput(records, size, seconds)


async def _consume(server: str, records: int, size: int, partitions: int) -> dict[str, Any]:
    async with _temporary(server, partitions, group=True) as topic:
        await _publish(server, topic, records, size)
        received, start = 0, 0.0
        async with aio.ShareConsumer(server, topic, [topic], ConsumerConfig()) as consumer:
            patience = clock.Deadline(_PATIENCE)
            while received < records:
                found = await consumer.poll(_POLL_SECONDS)
                if found:
                    start = start or clock.monotonic()
                    patience = clock.Deadline(_PATIENCE)
                _check(patience)
                for record in found:
                    record.accept()
                received += len(found)
            await consumer.commit()
            seconds = clock.monotonic() - start
    return throughput(records, size, seconds)


async def _latency(server: str, rate: float, seconds: float, size: int, partitions: int) -> dict[str, Any]:
    count = max(1, round(rate * seconds))
    async with _temporary(server, partitions, group=True) as topic:
        sent: dict[bytes, float] = {}
        times: list[float] = []
        async with (
            aio.Producer(server, sharebroker.ProducerConfig(linger_ms=0)) as producer,
            aio.ShareConsumer(server, topic, [topic], ConsumerConfig()) as consumer,
        ):

            async def publish() -> None:
                start = clock.monotonic()
                for number in range(count):
                    await asyncio.sleep(max(0.0, start + number / rate - clock.monotonic()))
                    key = b"%d" % number
                    sent[key] = clock.monotonic()
                    await producer.send(topic, b"x" * size, key=key)

            await producer.publish(topic, b"x", key=b"first")
            patience = clock.Deadline(_PATIENCE)
            while not await _arrived(consumer, sent, times):  # the consumer has joined with the first record
                _check(patience)
            publishing = asyncio.create_task(publish())
            try:
                while len(times) < count:
                    if await _arrived(consumer, sent, times):
                        patience = clock.Deadline(_PATIENCE)
                    if publishing.done():
                        publishing.result()
                    _check(patience)
            finally:
                publishing.cancel()
            await consumer.commit()
    return {"records": count, "rate": rate, **percentiles(times)}


async def _arrived(consumer: ShareConsumer, sent: dict[bytes, float], times: list[float]) -> int:
    """Adds the latencies of the next records; returns how many records have arrived."""
    found = await consumer.poll(_POLL_SECONDS)
    now = clock.monotonic()
    for record in found:
        record.accept()
        if (started := sent.pop(record.key or b"", None)) is not None:
            times.append(now - started)
    return len(found)


def _check(patience: clock.Deadline) -> None:
    """Raises KafkaError REQUEST_TIMED_OUT after the deadline."""
    if not patience.remaining():
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"No record has arrived for {_PATIENCE:.0f} s.")


def throughput(records: int, size: int, seconds: float) -> dict[str, Any]:
    """Returns the figures of a measurement: records and megabytes (10^6 bytes) per second."""
    per_second = records / seconds if seconds > 0 else 0.0
    return {
        "records": records,
        "seconds": round(seconds, 3),
        "records_per_s": round(per_second),
        "mb_per_s": round(per_second * size / 1e6, 2),
    }


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Returns percentiles and the maximum in milliseconds, by the nearest-rank method."""
    ordered = sorted(seconds)
    ranks = {f"p{share:.0f}_ms": -(-len(ordered) * share // 100) for share in _SHARES}
    found = {name: ordered[int(rank) - 1] for name, rank in ranks.items()} | {"max_ms": ordered[-1]}
    return {name: round(value * 1000, 3) for name, value in found.items()}
