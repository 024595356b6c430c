"""Many groups at once: `python -m tests.perf.many` leaves them idle, then publishes one record per partition.

Prints the server's CPU while the groups are idle, the slowest heartbeat, and whether each lock was kept whose
holder answered shortly before the time-out. The exit code is 1 when a heartbeat failed, a lock was lost or a
record did not arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import grpc

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from tests.perf.processes import end
from tests.perf.procfs import usage
from tests.support.client import ACCEPT, Client, connected
from tests.testkit.brokers import Serve
from tests.testkit.waiting import eventually

Call = grpc.aio.StreamStreamCall[share.ConsumeRequest, share.ConsumeResponse]

CONNECTIONS: Final = 20
HEARTBEAT_SECONDS: Final = 5.0
HELD_SECONDS: Final = 10.0
"""A consumer keeps its records for this time; a lock lasts 15 seconds here."""

PATIENCE: Final = 300.0
STOP_SECONDS: Final = 120.0


@dataclass
class Figures:
    """The results. Times are in seconds."""

    heartbeats: int = 0
    slowest_heartbeat: float = 0.0
    idle_cpu: float = 0.0
    expected: int = 0
    delivered: int = 0
    accepted: int = 0
    locks_lost: int = 0
    stopping: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)


async def beats(client: Client, group_id: str, topic: str, figures: Figures) -> None:
    """Sends heartbeats and measures them. The member consumes nothing, so it has its own topic."""
    epoch, topics = 0, [topic]
    while True:
        begun = time.monotonic()
        try:
            response = await client.heartbeat(group_id, "beats", epoch, topics)
        except grpc.aio.AioRpcError as failure:
            figures.errors[f"heartbeat: {failure.details()}"] += 1
            epoch, topics = 0, [topic]
        else:
            epoch, topics = response.member_epoch, []
            figures.heartbeats += 1
        took = time.monotonic() - begun
        figures.slowest_heartbeat = max(figures.slowest_heartbeat, took)
        await asyncio.sleep(max(0.0, HEARTBEAT_SECONDS - took))


async def consumes(client: Client, group_id: str, name: str, topic: str, figures: Figures) -> None:
    """Keeps the records of a stream for a while and then accepts them."""
    call, keeping, writing = client.share.Consume(), set[asyncio.Task[None]](), asyncio.Lock()
    subscribe = share.ConsumeRequest.Subscribe(group_id=group_id, topics=[topic], member_id=name, decode=True)
    try:
        await call.write(share.ConsumeRequest(subscribe=subscribe, credit=100))
        while isinstance(response := await call.read(), share.ConsumeResponse):
            figures.accepted += sum(not result.error_code for result in response.results)
            figures.locks_lost += len(response.lock_lost)
            figures.delivered += len(response.records)
            if response.records:
                keeping.add(asyncio.create_task(_accept_later(call, writing, list(response.records))))
    except grpc.aio.AioRpcError as failure:
        figures.errors[f"stream: {failure.details()}"] += 1
    finally:
        for task in keeping:
            task.cancel()
        call.cancel()


async def _accept_later(call: Call, writing: asyncio.Lock, records: list[share.ShareRecord]) -> None:
    await asyncio.sleep(HELD_SECONDS)
    acks = [
        delivery.Acknowledgement(
            id=number,
            topic_id=record.topic_id,
            partition=record.partition,
            first_offset=record.offset,
            type=delivery.AcknowledgeType.ValueType(ACCEPT),
            lock_token=record.lock_token,
        )
        for number, record in enumerate(records, 1)
    ]
    async with writing:  # a stream takes one message at a time
        await call.write(share.ConsumeRequest(acknowledgements=acks, credit=len(records)))


@contextlib.asynccontextmanager
async def crowd(
    address: str, options: argparse.Namespace, topics: tuple[str, str], figures: Figures
) -> AsyncIterator[None]:
    """Runs the consumers of the first topic and the members of the second, on a few connections."""
    work, beat = topics
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(address)) for _ in range(CONNECTIONS)]
        names = [await clients[0].group(share_record_lock_duration_ms="15000") for _ in range(options.groups)]
        tasks = list[asyncio.Task[None]]()
        for number in range(options.consumers):
            of = clients[number % CONNECTIONS], names[number % len(names)]
            tasks.append(asyncio.create_task(consumes(*of, f"s{number}", work, figures)))
            await asyncio.sleep(options.joining / options.consumers)
        for number, group_id in enumerate(names):
            client = clients[number % CONNECTIONS]
            tasks.append(asyncio.create_task(beats(client, group_id, beat, figures)))
            await asyncio.sleep(HEARTBEAT_SECONDS / len(names))  # not all of them in the same instant
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def measure(serve: Serve, options: argparse.Namespace) -> Figures:
    """Measures the idle groups, then one record per partition for each group."""
    figures = Figures(expected=options.groups * options.partitions)
    assert serve.process is not None
    async with connected(serve.address) as client:
        topic, _ = await client.create(options.partitions)
        beat, _ = await client.create()
        async with crowd(serve.address, options, (topic, beat), figures):
            await asyncio.sleep(options.settle)
            before, begun = usage([serve.process.pid]).cpu, time.monotonic()
            await asyncio.sleep(options.idle)
            figures.idle_cpu = (usage([serve.process.pid]).cpu - before) / (time.monotonic() - begun)
            for partition in range(options.partitions):
                await client.publish(topic, ["work"], partition=partition)
            with contextlib.suppress(AssertionError):  # the figures show what is missing
                await eventually(lambda: figures.accepted >= figures.expected, options.patience)
    return figures


def parsed() -> argparse.Namespace:
    """Returns the command line's options; times are in seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--consumers", type=int, default=1000)
    parser.add_argument("--joining", type=float, default=30.0, help="over which consumers join")
    parser.add_argument("--settle", type=float, default=20.0, help="before anything is measured")
    parser.add_argument("--idle", type=float, default=30.0, help="of measuring")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="for the records")
    return parser.parse_args()


def main() -> int:
    """Prints the figures as JSON; returns 1 when a check failed."""
    options = parsed()
    with tempfile.TemporaryDirectory(prefix="sharebroker-") as name:
        serve = Serve(Path(name), ["--data", str(Path(name) / "data")])
        serve.start()
        try:
            figures = asyncio.run(measure(serve, options))
        finally:
            begun = time.monotonic()
            if serve.process is not None:
                end(serve.process, STOP_SECONDS)
        figures.stopping = time.monotonic() - begun
    sys.stdout.write(json.dumps(vars(figures), indent=2) + "\n")
    return int(bool(figures.errors or figures.locks_lost or figures.accepted < figures.expected))


if __name__ == "__main__":
    sys.exit(main())
