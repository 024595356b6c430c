"""The failed records that a state write lists: rejected, exhausted and expired ones."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, FailedRecords, JournalUpdate, StateWrite
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    Effects,
    LoadedState,
    MembersLeft,
    Reconcile,
    SharePartitionSettings,
    TimerFired,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition

ACCEPT, RELEASE, REJECT, GAP = 1, 2, 3, 0
REJECTED, EXHAUSTED, EXPIRED = 1, 2, 3
OFFSET_MS = 1_000_000.0
SETTINGS = SharePartitionSettings(delivery_count_limit=1, lock_duration=30.0, longest_journal=3)


class Partition:
    """A share-partition with ten records, which a member acquires; writes end only on request."""

    def __init__(self, settings: SharePartitionSettings = SETTINGS, *, acquire: bool = True) -> None:
        self.core = SharePartition(settings, LoadedState(1, 1, 0, clock_offset_ms=OFFSET_MS))
        if acquire:
            self.handle(Acquire(AcquireRequest("7/user@m1", 10, 10), 0, [(0, 9)]))

    def handle(self, event: Any, now: float = 0.0) -> Effects:
        return self.core.handle(event, now)

    def acknowledge(self, *batches: AckBatch, now: float = 1.0, reason: str = "") -> None:
        self.handle(Acknowledge("7/user@m1", batches, lambda _: None, reason=reason), now)

    def write(self) -> StateWrite:
        write = self.core.next_write()
        assert write is not None
        return write

    def done(self, error: ErrorCode | None = None, now: float = 2.0) -> None:
        self.handle(WriteCompleted(None if error is None else KafkaError(error)), now)


def ack(first: int, last: int, *types: int) -> AckBatch:
    return AckBatch(first, last, types, None)


def failed(
    first: int,
    last: int,
    disposition: int,
    seconds: float = 1.0,
    reason: str = "",
    count: int = 1,
    member: str = "m1",
) -> FailedRecords:
    return FailedRecords(first, last, disposition, count, int(seconds * 1000 + OFFSET_MS), member, reason)


def listed(write: StateWrite) -> tuple[FailedRecords, ...]:
    return () if write.failed is None else write.failed.records


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([ack(0, 9, ACCEPT)], []),
        ([ack(0, 9, GAP)], []),
        ([ack(2, 4, REJECT)], [(2, 4, REJECTED)]),
        ([ack(2, 4, RELEASE)], [(2, 4, EXHAUSTED)]),
        ([ack(0, 0, REJECT), ack(1, 1, REJECT), ack(3, 3, REJECT)], [(0, 1, REJECTED), (3, 3, REJECTED)]),
        (
            [ack(0, 4, ACCEPT, REJECT, GAP, RELEASE, REJECT)],
            [(1, 1, REJECTED), (3, 3, EXHAUSTED), (4, 4, REJECTED)],
        ),
    ],
)
def test_an_acknowledgement_lists_failed_records(
    batches: list[AckBatch], expected: list[tuple[int, int, int]]
) -> None:
    partition = Partition()
    partition.acknowledge(*batches, reason="bad")
    assert listed(partition.write()) == tuple(failed(*each, reason="bad") for each in expected)


def test_a_release_below_the_limit_is_not_listed() -> None:
    partition = Partition(SharePartitionSettings(delivery_count_limit=2))
    partition.acknowledge(ack(0, 9, RELEASE))
    assert partition.write().failed is None


def test_a_long_reason_is_cut() -> None:
    partition = Partition()
    partition.acknowledge(ack(0, 0, REJECT), reason="é" * 300)
    assert listed(partition.write()) == (failed(0, 0, REJECTED, reason="é" * 256),)


def test_a_lock_timeout_at_the_limit_is_listed() -> None:
    partition = Partition()
    partition.handle(TimerFired(), 30.0)
    assert listed(partition.write()) == (failed(0, 9, EXHAUSTED, 30.0),)


def test_the_last_delivery_of_a_member_that_left_is_listed() -> None:
    partition = Partition()
    partition.handle(MembersLeft(("7/user@m1",)), 3.0)
    assert listed(partition.write()) == (failed(0, 9, EXHAUSTED, 3.0),)


def test_planned_batches_list_failed_records() -> None:
    partition = Partition(acquire=False)
    batches = [ack(0, 1, ACCEPT), ack(2, 3, REJECT), ack(4, 5, RELEASE)]
    partition.handle(Acquire(AcquireRequest("@plan", 10, 10), 0, [(0, 9)]))
    partition.handle(Reconcile("@plan", batches, 0, 10, lambda _: None), 4.0)
    assert listed(partition.write()) == (
        failed(2, 3, REJECTED, 4.0, member="plan"),
        failed(4, 5, EXHAUSTED, 4.0, member="plan"),
    )


def test_expired_records_are_written_and_listed() -> None:
    partition = Partition(acquire=False)
    request = AcquireRequest("@m1", 10, 10)
    acquired = partition.handle(Acquire(request, 0, [(0, 4), (5, 9)], expired=[(0, 4)]), 5.0)
    assert not acquired.acquired
    write = partition.write()
    assert (write.start_offset, write.batches) == (5, ())
    assert listed(write) == (failed(0, 4, EXPIRED, 5.0, count=0, member=""),)


def test_a_failed_write_lists_the_record_with_its_next_acknowledgement_only() -> None:
    partition = Partition()
    partition.acknowledge(ack(0, 0, REJECT))
    assert listed(partition.write()) == (failed(0, 0, REJECTED),)
    partition.done(ErrorCode.REQUEST_TIMED_OUT)
    partition.acknowledge(ack(0, 9, ACCEPT))
    assert partition.write().failed is None


def test_no_write_passes_a_failed_record_without_listing_it() -> None:
    partition = Partition()
    partition.acknowledge(ack(5, 9, REJECT), now=1.0)
    assert listed(partition.write()) == (failed(5, 9, REJECTED),)
    partition.done(ErrorCode.REQUEST_TIMED_OUT)
    partition.handle(TimerFired(), 30.0)
    assert listed(partition.write()) == (failed(0, 9, EXHAUSTED, 30.0),)
    partition.done(ErrorCode.REQUEST_TIMED_OUT, 30.0)
    partition.handle(Acquire(AcquireRequest("7/user@m1", 10, 10), 10, [(10, 19)]), 30.5)
    partition.acknowledge(ack(10, 19, ACCEPT), now=31.0)
    write = partition.write()
    assert (write.start_offset, listed(write)) == (20, (failed(0, 9, EXHAUSTED, 30.0),))
    partition.done(now=31.5)
    partition.handle(TimerFired(), 33.0)
    assert partition.core.next_write() is None


def test_entries_above_the_limit_are_counted() -> None:
    partition = Partition()
    partition.acknowledge(*[ack(offset, offset, REJECT) for offset in range(0, 10, 2)])
    write = partition.write()
    assert write.failed == JournalUpdate(
        tuple(failed(offset, offset, REJECTED) for offset in (4, 6, 8)), 3, 2
    )


def test_a_group_may_list_nothing() -> None:
    partition = Partition(SharePartitionSettings(delivery_count_limit=1, longest_journal=0))
    partition.acknowledge(ack(0, 4, REJECT))
    assert partition.write().failed is None
    partition.done()
    partition.handle(Acquire(AcquireRequest("@m1", 10, 10), 10, [(10, 14)], expired=[(10, 14)]), 5.0)
    assert not partition.core.writing
