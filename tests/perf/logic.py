"""Case 8: the cost of the pure cores, without network, log and event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Final

from sharebroker_protocol.model import AckBatch, SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import Initialize, Write
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import ShareRecord
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    LoadedState,
    SharePartitionSettings,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition

RECORDS: Final = 500
LOG_BATCH: Final = 100
ACCEPT: Final = (1,)
WRITTEN: Final = WriteCompleted(None)


def measure(rounds: int) -> dict[str, float]:
    """Returns medians in microseconds."""
    fewer = max(20, rounds // 20)
    return {
        "logic.fetch_ack_500": _median_us(_fetch_and_acknowledge(RECORDS), rounds),
        "logic.fetch_ack_500_singly": _median_us(_fetch_and_acknowledge(1), fewer),
        "logic.fetch_ack_500_held": _median_us(_fetch_and_acknowledge(1, held=True), fewer),
        "logic.write": _median_us(_write(encode=False), rounds),
        "logic.write_bytes": _median_us(_write(encode=True), rounds),
    }


def _median_us(step: Callable[[], None], rounds: int) -> float:
    step()
    took = []
    for _ in range(rounds):
        begun = time.perf_counter()
        step()
        took.append(time.perf_counter() - begun)
    return median(took) * 1e6


def _fetch_and_acknowledge(run: int, *, held: bool = False) -> Callable[[], None]:
    """Acquires 500 records in log batches of 100, acknowledges them in runs of `run`, and completes.

    `held`: another member holds the record before them.
    """
    partition = SharePartition(SharePartitionSettings(), LoadedState(1, 1, 0))
    if held:
        partition.handle(Acquire(AcquireRequest("holder", 1, 1), 0, [(0, 0)]), time.time())
    request = AcquireRequest("member", RECORDS, RECORDS)
    replies: list[object] = []

    def step() -> None:
        now, first = time.time(), partition.in_flight.after_end
        log = [(base, base + LOG_BATCH - 1) for base in range(first, first + RECORDS, LOG_BATCH)]
        for piece in partition.handle(Acquire(request, first, log), now).acquired:
            for begin in range(piece.first, piece.last + 1, run):
                batch = AckBatch(begin, min(begin + run - 1, piece.last), ACCEPT, piece.token)
                partition.handle(Acknowledge("member", (batch,), replies.append), now)
        partition.next_write()
        partition.handle(WRITTEN, now)

    return step


def _write(encode: bool) -> Callable[[], None]:
    """Writes that alternately leave a gap and close it, as acknowledgements out of order do."""
    machine, codec = ShareCoordinatorMachine(CheckpointRules()), ShareRecordCodec()
    key = SharePartitionKey("group", "A" * 22, 0)
    position = 0

    def commit(records: tuple[ShareRecord, ...]) -> None:
        nonlocal position
        for record in records:
            position += 1
            machine.apply(record, position)
            if encode:
                codec.encode(record)

    commit(machine.decide(Initialize(key, 1, 0), time.time()).records)
    written = 0

    def step() -> None:
        nonlocal written
        gap = written % 2 == 0
        base = written // 2 * RECORDS
        batch = StateBatch(base + 250, base + 499, 2, 1) if gap else StateBatch(base, base + 249, 2, 1)
        start, count = (base, 250) if gap else (base + RECORDS, 0)
        commit(machine.decide(Write(key, 1, 0, start, count, (batch,)), time.time()).records)
        written += 1

    return step
