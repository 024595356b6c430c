"""`make bench-window`: records that are held or wait beside others, as ratios of interleaved pairs.

Both servers of a pair are equal. On one of them a member prepares the first records of a share-partition: it
holds one for an hour, or delays 10,000 by an hour, each to a time of its own. On the other one it accepts the
same records. Then each program consumes the rest, on both servers in slices, in the order A B B A. The last
pair of figures is the time until 10,000 records that were released together are delivered again, at once and
all in the same millisecond. The times of the pure cores are for the most runs that a share-partition may
have.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Final, TypeVar

import typer

from sharebroker.aio import ShareConsumer
from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.gateway.v1 import share_pb2 as share
from sharebroker_protocol.model import RecordState, SharePartitionKey, StateBatch, StateNote
from sharebroker_server.broker.garbage import shorten_collections
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from sharebroker_server.share_partition_leader.core.events import (
    LoadedState,
    SharePartitionSettings,
    TimerFired,
)
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from tests.perf.clients import Work
from tests.perf.compare import LABELS, Side
from tests.perf.processes import BenchFailed
from tests.perf.rows import Pairs, Row, Rows, below_aims, run_program, run_slice, server_in
from tests.perf.servers import Serving
from tests.perf.slices import SLICES
from tests.support.client import ACCEPT, RELEASE, Client, connected, decision

PROGRAMS: Final = ("range", "each")
TOPIC: Final = "window"
MEMBER: Final = "holder"
HOUR_MS: Final = 3_600_000

WAITING: Final = 10_000
"""Records that are delayed, or due in the same millisecond."""

DUE: Final = "due"
"""The topic of the records that are due together."""

DUE_MS: Final = 3000
JOIN_SECONDS: Final = 1.0
DUE_SECONDS: Final = 60.0

RECORDS: Final = 4_000_000
QUICK_RECORDS: Final = 100_000
PAIR_SECONDS: Final = 210.0
QUICK_PAIR_SECONDS: Final = 60.0
"""The time that a pair takes on two cores."""
AT_ONCE: Final = 500

LOAD_MS: Final = 50.0
ROUNDS: Final = 21

Decision = share.AcknowledgeRequest.Decision
T = TypeVar("T")

OPTIONS: Final = (
    *("--set", f"group.share.max.record.lock.duration.ms={HOUR_MS}"),
    *("--set", f"group.share.max.partition.max.record.locks={WAITING}"),
)


_CASES: Final = {case: LABELS[case] for case in ("range", "each")}
ROWS: Final[Rows] = {
    "held": Row(("none held", "one held for an hour", "held / none"), 0.97, _CASES),
    "waiting": Row(("none wait", f"{WAITING:,} wait", "waiting / none"), 0.95, _CASES),
    "due": Row(
        ("released at once", "due in one millisecond", "due / at once"), 0.0, {"all": f"{WAITING:,} records"}
    ),
}
PREPARED: Final = {"held": 1, "waiting": WAITING}
"""Records that are prepared before the programs of a row run."""


@contextmanager
def started(records: int, side: Side, folder: Path) -> Iterator[Driven]:
    """Starts the server of a side; its programs consume this many records."""
    with server_in(folder, OPTIONS) as server:
        driven = Driven(server, side == "after", records // SLICES)
        for topic, published in ((TOPIC, driven.records + 2 * WAITING), (DUE, WAITING)):
            run_program("publish", Work(server.address, topic, records=published))
        yield driven


@dataclass(frozen=True, slots=True)
class Driven:
    """A server, and whether records are held or wait on it. `records` are those of a slice."""

    serving: Serving
    hindered: bool
    records: int

    def run(self, name: str, number: int) -> dict[str, float]:
        """Runs a slice of a program; returns its figures.

        Each slice has a group of its own, whatever its `number`.
        """
        row, case = name.split()
        address = self.serving.address
        if row not in PREPARED:
            return {"delivered": asyncio.run(due_seconds(address, self.hindered)) * 1e3}
        group = asyncio.run(prepare(address, PREPARED[row], self.hindered))
        return run_slice(self.serving, case, Work(address, TOPIC, group, self.records))


async def prepare(address: str, records: int, hindered: bool) -> str:
    """Returns a group whose first records are accepted or, if `hindered`, held (one) or delayed (several)."""
    async with connected(address) as client:
        group = await client.group(share_record_lock_duration_ms=str(HOUR_MS))
        done = 0
        while done < records:
            acquired = await client.acquire(group, TOPIC, min(AT_ONCE, records - done), member=MEMBER)
            decisions = [decision(record, RELEASE if hindered else ACCEPT) for record in acquired.records]
            for number, each in enumerate(decisions, done) if hindered else ():
                each.delay_ms = HOUR_MS + number
            if not hindered or records > 1:
                await acknowledge(client, group, decisions)
            done += len(decisions)
        return group


async def acknowledge(client: Client, group: str, decisions: Sequence[Decision]) -> None:
    """Acknowledges records durably; raises BenchFailed if one was rejected."""
    request = share.AcknowledgeRequest(group_id=group, member_id=MEMBER, acknowledgements=decisions)
    response = await client.share.Acknowledge(request, timeout=DUE_SECONDS)
    if errors := {result.error_code for result in response.results} - {0}:
        raise BenchFailed(f"acknowledgements failed with {sorted(errors)}")


async def due_seconds(address: str, delayed: bool) -> float:
    """Returns the seconds from the time of 10,000 released records until a waiting consumer has all."""
    async with connected(address) as client:
        group = await client.group(share_partition_max_record_locks=str(WAITING))
        held = 0
        while held < WAITING:
            held += len((await client.acquire(group, DUE, AT_ONCE, member=MEMBER)).records)
        # One decision about all records, so that all have the same time.
        release = Decision(topic=DUE, last_offset=WAITING - 1, type=delivery.ACKNOWLEDGE_TYPE_RELEASE)
        release.delay_ms = DUE_MS if delayed else 0
        async with asyncio.timeout(DUE_SECONDS), ShareConsumer(address, group, [DUE]) as consumer:
            arrival = asyncio.create_task(_accept(consumer, WAITING))
            await asyncio.sleep(JOIN_SECONDS)
            due_at = time.monotonic() + release.delay_ms / 1000
            await acknowledge(client, group, [release])
            return await arrival - due_at


async def _accept(consumer: ShareConsumer, records: int) -> float:
    """Accepts this many records; returns when the last one arrived."""
    arrived = time.monotonic()
    while records > 0:
        for record in await consumer.poll(1.0):
            record.accept()
            records -= 1
        arrived = time.monotonic()
    return arrived


# The pure cores


def checkpoint(runs: int, not_before_ms: int) -> ShareCheckpoint:
    """Returns a checkpoint with this many runs of one record: they wait and are finished in turn."""
    key = SharePartitionKey("billing", "A" * 22, 0)
    note = StateNote(not_before_ms)
    batches = tuple(
        StateBatch(number, number, RecordState.ACKNOWLEDGED, 1)
        if number % 2
        else StateBatch(number, number, RecordState.AVAILABLE, 1, note)
        for number in range(runs)
    )
    return ShareCheckpoint(key, 0, 0, 0, 0, runs // 2, 0, 0, batches)


def cores() -> dict[str, float]:
    """Returns the size of a checkpoint with the most runs, and medians in milliseconds."""
    codec, stored = ShareRecordCodec(), checkpoint(SharePartitionSettings().max_runs, 1000 * HOUR_MS)
    payload = codec.encode(stored)
    due = checkpoint(2 * WAITING, 1)
    return {
        "runs": len(stored.state_batches),
        "bytes": len(payload),
        "decode": _median_ms(lambda: payload, codec.decode),
        "load": _median_ms(lambda: stored, _loaded),
        "due": _median_ms(lambda: _loaded(due), lambda share: share.handle(TimerFired(), 1.0)),
    }


def _loaded(stored: ShareCheckpoint) -> SharePartition:
    return SharePartition(SharePartitionSettings(), LoadedState(0, 1, 0, stored.state_batches))


def _median_ms(prepare: Callable[[], T], step: Callable[[T], object]) -> float:
    took = []
    for _ in range(ROUNDS):
        prepared = prepare()
        begun = time.process_time()
        step(prepared)
        took.append(time.process_time() - begun)
    return median(took) * 1e3


def main(
    pairs: Annotated[int, typer.Option(min=1, max=50, help="Pairs; the tables have their medians.")] = 5,
    quick: Annotated[bool, typer.Option(help="One short pair: does it work?")] = False,
) -> None:
    """Compare servers with and without held and waiting records; exit code 1 below an aim, or on failure."""
    shorten_collections()  # as a server does
    compared = Pairs(ROWS, partial(started, QUICK_RECORDS if quick else RECORDS))
    found, failures = compared.run(1 if quick else pairs, QUICK_PAIR_SECONDS if quick else PAIR_SECONDS)
    core = cores()
    typer.echo(
        f"A checkpoint of {core['runs']:,} runs: {core['bytes']:,} bytes; {core['decode']:.0f} ms to decode, "
        f"{core['load']:.0f} ms to load.\n{WAITING:,} runs of one time: {core['due']:.0f} ms to end waits."
    )
    missed = [] if quick else below_aims(ROWS, found)
    if core["decode"] + core["load"] >= LOAD_MS:
        missed.append(f"decoding and loading take {LOAD_MS:g} ms or more")
    for failure in (*failures, *missed):
        typer.echo(f"failed: {failure}")
    raise typer.Exit(1 if failures or missed else 0)


if __name__ == "__main__":
    typer.run(main)
