"""Archiving records: how records become archiving, wait for their letters, and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import (
    AckBatch,
    FailureNote,
    RecordState,
    StateBatch,
    StateNote,
    StateWrite,
)
from sharebroker_server.leader_calls.values import UnreconciledReason
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    Configure,
    Effects,
    LettersWritten,
    Loaded,
    LoadedState,
    MembersLeft,
    Reconcile,
    SharePartitionSettings,
    Stop,
    TimerFired,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from tests.unit.share_partition_leader.core.support import batches

GAP, ACCEPT, RELEASE, REJECT = range(4)
REJECTED, EXHAUSTED, EXPIRED = 1, 2, 3
ARCHIVING, ARCHIVED = RecordState.ARCHIVING, RecordState.ARCHIVED
OFFSET_MS = 1_000_000.0
SETTINGS = SharePartitionSettings(delivery_count_limit=1, dead_letters=True)


class Partition:
    """A share-partition with ten acquired records; writes end only on request."""

    def __init__(
        self,
        settings: SharePartitionSettings = SETTINGS,
        stored: Sequence[StateBatch] = (),
        acquire: int = 10,
    ) -> None:
        state = LoadedState(1, 1, 0, tuple(stored), clock_offset_ms=OFFSET_MS)
        self.core = SharePartition(settings, state)
        self.loaded = self.handle(Loaded())
        if acquire:
            self.handle(Acquire(AcquireRequest("7/user@m1", acquire, 10), 0, [(0, acquire - 1)]))

    def handle(self, event: Any, now: float = 0.0) -> Effects:
        return self.core.handle(event, now)

    def acknowledge(self, first: int, last: int, *types: int, reason: str = "") -> None:
        batch = AckBatch(first, last, types, None)
        self.handle(Acknowledge("7/user@m1", [batch], lambda _: None, reason=reason), 1.0)

    def write(self) -> StateWrite:
        write = self.core.next_write()
        assert write is not None
        return write

    def done(self, error: ErrorCode | None = None, now: float = 2.0) -> Effects:
        return self.handle(WriteCompleted(None if error is None else KafkaError(error)), now)

    def written(self) -> StateWrite:
        """Writes everything that waits, durably."""
        write = self.write()
        self.done()
        return write

    @property
    def states(self) -> list[tuple[int, int, int]]:
        return [(run.first, run.last, int(run.state)) for run in self.core.in_flight.runs]

    @property
    def requested(self) -> list[tuple[int, int]]:
        return [(one.first, one.last) for one in self.core.archiving(1000)]


def note(disposition: int, seconds: float, reason: str = "", member: str = "m1") -> StateNote:
    return StateNote(failure=FailureNote(disposition, int(seconds * 1000 + OFFSET_MS), member, reason))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (ACCEPT, []),
        (GAP, [StateBatch(2, 4, ARCHIVED, 1)]),
        (RELEASE, [StateBatch(2, 4, ARCHIVING, 1, note(EXHAUSTED, 1.0, "bad"))]),
        (REJECT, [StateBatch(2, 4, ARCHIVING, 1, note(REJECTED, 1.0, "bad"))]),
    ],
)
def test_an_acknowledgement_stores_how_records_failed(kind: int, expected: list[StateBatch]) -> None:
    partition = Partition()
    partition.acknowledge(2, 4, kind, reason="bad")
    write = partition.write()
    assert [batch for batch in write.batches if batch.state != RecordState.ACKNOWLEDGED] == expected
    assert write.delivery_complete_count == (0 if kind in (RELEASE, REJECT) else 3)
    assert write.start_offset == 0


@pytest.mark.parametrize(("event", "now"), [(TimerFired(), 30.0), (MembersLeft(("7/user@m1",)), 3.0)])
def test_the_last_delivery_becomes_archiving(event: Any, now: float) -> None:
    partition = Partition()
    partition.handle(event, now)
    assert partition.write().batches == (StateBatch(0, 9, ARCHIVING, 1, note(EXHAUSTED, now)),)
    assert partition.core.archiving(100) == []
    assert partition.done(now=now).archiving
    (records,) = partition.core.archiving(100)
    assert records == (0, 9, 1, EXHAUSTED, "", int(now * 1000 + OFFSET_MS), "m1")


def test_expired_records_become_archiving_also_without_a_journal() -> None:
    partition = Partition(replace(SETTINGS, longest_journal=0), acquire=0)
    request = AcquireRequest("@m1", 10, 10)
    partition.handle(Acquire(request, 0, [(0, 4), (5, 9)], expired=[(0, 4)]), 5.0)
    assert partition.requested == []
    assert partition.written().batches == (StateBatch(0, 4, ARCHIVING, 1, note(EXPIRED, 5.0, member="")),)
    (records,) = partition.core.archiving(100)
    assert records[:4] == (0, 4, 0, EXPIRED)  # no member received them


def test_letters_end_archiving_records_and_the_start_offset_moves() -> None:
    partition = Partition()
    partition.acknowledge(0, 9, ACCEPT, *[REJECT] * 3, *[ACCEPT] * 6)
    assert partition.written().start_offset == 1
    effects = partition.handle(LettersWritten([(0, 1), (3, 99)]))
    assert (effects.write_due, effects.wake) == (True, True)
    assert partition.states == [(2, 2, 3), (3, 3, 4), (4, 9, 2)]
    assert partition.requested == [(2, 2)]
    assert partition.core.archiving_ranges() == [(1, 3)]
    write = partition.written()
    assert (write.start_offset, write.delivery_complete_count) == (2, 7)
    assert write.batches == (StateBatch(3, 3, ARCHIVED, 1),)
    assert partition.core.archiving_ranges() == [(2, 2)]
    partition.handle(LettersWritten([(2, 2), (2, 2)]))
    assert partition.written().start_offset == 10


def test_letters_of_other_records_change_nothing() -> None:
    partition = Partition()
    assert not partition.handle(LettersWritten([(0, 99)])).write_due
    assert partition.states == [(0, 9, 1)]


def test_the_end_of_archiving_is_written_until_it_is_durable() -> None:
    partition = Partition()
    partition.acknowledge(0, 9, REJECT)
    partition.written()
    partition.handle(LettersWritten([(0, 9)]))
    assert partition.write().start_offset == 10
    partition.done(ErrorCode.REQUEST_TIMED_OUT)
    assert partition.core.archiving_ranges() == [(0, 9)]
    assert not partition.core.unused
    partition.handle(TimerFired(), 5.0)
    assert partition.written().start_offset == 10
    assert partition.core.archiving_ranges() == []
    assert partition.core.unused


def test_a_failed_timeout_is_not_requested_until_its_retry_is_durable() -> None:
    partition = Partition()
    partition.handle(TimerFired(), 30.0)
    partition.write()
    assert not partition.done(ErrorCode.REQUEST_TIMED_OUT, 30.0).archiving
    assert partition.states == [(0, 9, 3)]
    assert partition.requested == []
    partition.handle(TimerFired(), 32.0)
    partition.write()
    assert partition.done(now=32.0).archiving
    assert partition.requested == [(0, 9)]


def test_a_durable_timeout_does_not_make_another_one_durable() -> None:
    partition = Partition(acquire=0)
    partition.handle(Acquire(AcquireRequest("@m1", 5, 10, lock=10.0), 0, [(0, 4)]), 0.0)
    partition.handle(Acquire(AcquireRequest("@m1", 5, 10, lock=10.0), 5, [(5, 9)]), 0.0003)
    partition.handle(TimerFired(), 10.0)
    partition.write()
    partition.handle(TimerFired(), 10.0004)  # in the same millisecond
    assert partition.states == [(0, 9, 3)]
    partition.done()
    assert partition.requested == [(0, 4)]
    partition.written()
    assert partition.requested == [(0, 9)]


def test_a_rejected_write_is_rolled_back() -> None:
    partition = Partition()
    partition.acknowledge(0, 9, REJECT, reason="bad")
    partition.write()
    partition.done(ErrorCode.REQUEST_TIMED_OUT)
    partition.acknowledge(0, 4, ACCEPT)
    assert partition.states == [(0, 4, 1), (5, 9, 1)]
    assert partition.written().batches == ()
    assert partition.states == [(5, 9, 1)]


def test_archiving_records_are_not_acquired_or_acknowledged_and_hold_no_lock() -> None:
    partition = Partition()
    partition.acknowledge(2, 4, REJECT)
    partition.written()
    in_flight = partition.core.in_flight
    assert (in_flight.locked, in_flight.archiving, in_flight.complete_count) == (7, 3, 0)
    with pytest.raises(KafkaError) as raised:
        partition.acknowledge(3, 3, ACCEPT)
    assert raised.value.code is ErrorCode.INVALID_RECORD_STATE
    assert raised.value.metadata == {"offset": "3", "reason": "already_acknowledged"}
    partition.handle(MembersLeft(("7/user@m1",), undo=True))
    acquired = partition.handle(Acquire(AcquireRequest("@m2", 100, 100), 0, [(0, 9)])).acquired
    assert [(each.first, each.last) for each in acquired] == [(0, 1), (5, 9)]


def test_a_planned_batch_finds_archiving_records_finished_and_stores_them() -> None:
    partition = Partition()
    partition.handle(TimerFired(), 30.0)
    partition.write()
    partition.done(ErrorCode.REQUEST_TIMED_OUT, 30.0)
    effects = partition.handle(Reconcile("@plan", [AckBatch(0, 4, (ACCEPT,))], 0, 10, lambda _: None), 31.0)
    assert effects.unreconciled == ((0, 4, UnreconciledReason.FINISHED),)
    assert partition.write().batches[0][2:] == (ARCHIVING, 1, note(EXHAUSTED, 30.0))
    partition.done(now=31.0)
    assert partition.requested == [(0, 9)]  # the write carried the failed one, too


def test_only_runs_that_failed_together_are_united() -> None:
    partition = Partition()
    partition.acknowledge(0, 1, REJECT, reason="a")
    partition.acknowledge(2, 3, REJECT, reason="a")
    partition.acknowledge(4, 5, REJECT, reason="b")
    partition.written()
    assert partition.states == [(0, 3, 3), (4, 5, 3), (6, 9, 1)]
    assert [(one.first, one.last, one.reason) for one in partition.core.archiving(5)] == [
        (0, 3, "a"),
        (4, 4, "b"),
    ]


@pytest.mark.parametrize(("most", "offset"), [(3, None), (4, 0)])
def test_nothing_is_acquired_from_the_limit_of_archiving_records_on(most: int, offset: int | None) -> None:
    partition = Partition(replace(SETTINGS, max_archiving=most))
    partition.acknowledge(5, 7, REJECT)
    partition.written()
    partition.handle(MembersLeft(("7/user@m1",), undo=True))
    assert partition.core.fetch_offset(0, 99) == offset
    acquired = partition.handle(Acquire(AcquireRequest("@m2", 100, 100), 0, [(0, 19)])).acquired
    assert bool(acquired) is (offset is not None)
    assert partition.handle(LettersWritten([(5, 5)])).wake
    partition.handle(MembersLeft(("@m2",), undo=True))
    assert partition.core.fetch_offset(0, 99) == 0


STORED = [StateBatch(0, 4, ARCHIVING, 1, note(REJECTED, 1.0, "bad")), *batches("5-9 archiving 1")]


def test_a_new_leader_continues_with_stored_failures() -> None:
    partition = Partition(stored=STORED, acquire=0)
    assert partition.loaded.archiving
    assert not partition.core.unused
    assert partition.core.archiving(100) == [
        (0, 4, 1, REJECTED, "bad", int(1000 + OFFSET_MS), "m1"),
        (5, 9, 1, EXHAUSTED, "", 0, ""),  # inferred as in Kafka: the count has reached the limit
    ]
    assert (
        Partition(replace(SETTINGS, delivery_count_limit=2), STORED, 0).core.archiving(10)[1][3] == REJECTED
    )


@pytest.mark.parametrize("event", [Loaded(), Configure(replace(SETTINGS, dead_letters=False))])
def test_without_dead_letters_archiving_records_are_archived(event: Any) -> None:
    loads = isinstance(event, Loaded)
    partition = Partition(replace(SETTINGS, dead_letters=not loads), STORED, 0)
    effects = partition.loaded if loads else partition.handle(event)
    assert (effects.write_due, effects.archiving) == (True, False)
    assert partition.written().start_offset == 10
    assert partition.core.in_flight.archiving == 0


def test_a_reject_in_flight_is_archived_after_dead_letters_are_disabled() -> None:
    partition = Partition()
    partition.acknowledge(0, 9, REJECT)
    partition.write()
    partition.handle(Configure(replace(SETTINGS, dead_letters=False)))
    assert partition.done().write_due
    assert partition.written().start_offset == 10


def test_the_log_start_passes_all_but_archiving_records() -> None:
    partition = Partition()
    partition.acknowledge(0, 9, *[ACCEPT] * 2, REJECT, *[ACCEPT] * 2, REJECT, *[RELEASE] * 4)
    partition.written()
    partition.handle(LettersWritten([(6, 9)]))
    assert partition.core.fetch_offset(20, 30) == 20
    assert partition.states == [(2, 2, 3), (3, 4, 2), (5, 5, 3), (6, 9, 4), (10, 19, 4)]
    assert partition.core.in_flight.complete_count == 16
    partition.handle(LettersWritten([(2, 5)]))
    assert partition.core.start_offset == 20
    assert partition.core.fetch_offset(20, 30) == 20


def test_a_stopped_share_partition_ignores_letters() -> None:
    partition = Partition(stored=STORED, acquire=0)
    partition.handle(Stop())
    assert not partition.handle(LettersWritten([(0, 9)])).write_due
