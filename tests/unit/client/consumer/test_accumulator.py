"""Acknowledgements become ack batches; results of batches become outcomes of records."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable

import pytest

from sharebroker.client_errors import ConnectionLostError
from sharebroker.consumer.accumulator import Accumulator, ImplicitAccumulator, PendingAckBatch, Renewal
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.outcome import Progress
from sharebroker_protocol.records.batches import decode
from sharebroker_protocol.records.record import Acknowledgement, AcknowledgeType, Detail, Record
from tests.unit.client.batches import acquisition, batch

ACCEPT, RELEASE, REJECT, RENEW = (AcknowledgeType(n) for n in (1, 2, 3, 4))
REFUSED = KafkaError(ErrorCode.INVALID_RECORD_STATE)


class Wakes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def nothing() -> None:
    """A wake-up that does nothing."""


def held(accumulator: Accumulator, first: int = 0, last: int = 9) -> list[Record]:
    acquired = acquisition(first, last, accumulator)
    return decode(batch(first, [b"v"] * (last - first + 1)), [acquired]).records


def fields(batch: PendingAckBatch) -> tuple[int, int, AcknowledgeType, Detail]:
    return (batch.first, batch.last, batch.kind, batch.detail)


def unconfirmed_offsets(accumulator: Accumulator) -> list[int]:
    return sorted(offset for ack in accumulator.pending() for offset in ack.unconfirmed_offsets)


def drained(accumulator: Accumulator) -> list[tuple[int, int, AcknowledgeType, Detail]]:
    return sorted((fields(batch) for batch in accumulator.drain()), key=str)


class TestCoalescing:
    def test_acknowledgements_of_one_drain_are_one_batch(self) -> None:
        accumulator = Accumulator(wakes := Wakes())
        for record in held(accumulator):
            record.accept()
        assert wakes.count == 1
        assert drained(accumulator) == [(0, 9, ACCEPT, None)]
        assert accumulator.drain() == []

    def test_consecutive_offsets_in_any_order_are_one_batch(self) -> None:
        accumulator = Accumulator(nothing)
        for record in reversed(held(accumulator)):
            record.accept()
        assert drained(accumulator) == [(0, 9, ACCEPT, None)]

    def test_types_and_details_make_separate_batches(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator)
        makes: list[Callable[[Record], Acknowledgement]] = [
            Record.accept,
            Record.accept,
            lambda r: r.release(),
            lambda r: r.release(1.5),
            lambda r: r.reject(),
            lambda r: r.reject("no departure"),
            lambda r: r.reject("no departure"),
            Record.renew,
            Record.accept,
        ]
        for record, make in zip(records, makes, strict=False):
            make(record)
        assert drained(accumulator) == sorted(
            [
                (0, 1, ACCEPT, None),
                (2, 2, RELEASE, None),
                (3, 3, RELEASE, 1500),
                (4, 4, REJECT, None),
                (5, 6, REJECT, "no departure"),
                (7, 7, RENEW, None),
                (8, 8, ACCEPT, None),
            ],
            key=str,
        )

    @pytest.mark.parametrize("delay", [-0.001, 86_400.001, float("inf"), float("nan")])
    def test_delay_out_of_range_is_rejected(self, delay: float) -> None:
        accumulator = Accumulator(nothing)
        record, *_ = held(accumulator)
        with pytest.raises(ValueError, match="between 0 and 86400 seconds"):
            record.release(delay)
        assert drained(accumulator) == []
        record.release(86_400)
        assert drained(accumulator) == [(0, 0, RELEASE, 86_400_000)]

    def test_missing_offsets_split_batches(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator)
        for n in (8, 1, 0, 3, 9):
            records[n].accept()
        assert drained(accumulator) == [(0, 1, ACCEPT, None), (3, 3, ACCEPT, None), (8, 9, ACCEPT, None)]

    def test_acquisitions_make_separate_batches(self) -> None:
        accumulator = Accumulator(nothing)
        one, two = held(accumulator, 0, 2), held(accumulator, 3, 5)
        for pair in zip(one, two, strict=True):
            for record in pair:
                record.accept()
        assert drained(accumulator) == [(0, 2, ACCEPT, None), (3, 5, ACCEPT, None)]

    def test_offsets_without_record_are_acknowledged(self) -> None:
        accumulator = Accumulator(nothing)
        acquired = acquisition(0, 1, accumulator)
        accumulator.queue_internal(acquired, (0, 1), REJECT, "corrupt")
        (batch,) = accumulator.drain()
        assert fields(batch) == (0, 1, REJECT, "corrupt")
        assert accumulator.resolve(batch.id, None, 0) is batch
        assert accumulator.held == set()

    def test_implicit_mode_rejects_acknowledgements(self) -> None:
        accumulator = ImplicitAccumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        with pytest.raises(IllegalStateError, match="implicit"):
            record.accept()
        accumulator.queue(record, ACCEPT)
        assert drained(accumulator) == [(0, 0, ACCEPT, None)]

    def test_queued_range_is_reported_without_acknowledgements(self) -> None:
        outcomes: list[tuple[int, int, KafkaError | None]] = []
        accumulator = ImplicitAccumulator(
            nothing,
            on_outcome=lambda batch, error: outcomes.append((batch.first, batch.last, error)),
        )
        records = held(accumulator)
        accumulator.queue_range(records[0].acquisition, 2, 7, ACCEPT)
        assert unconfirmed_offsets(accumulator) == [2, 3, 4, 5, 6, 7]
        (batch,) = accumulator.drain()
        (pending,) = accumulator.pending()
        accumulator.resolve(batch.id, REFUSED, 0, (2, 3))
        assert not pending.done
        accumulator.resolve(batch.id, None, 0, (4, 7))
        assert pending.done
        assert outcomes == [(2, 3, REFUSED), (4, 7, None)]
        assert pending.unconfirmed_offsets == []
        assert all(record.acknowledgement is None for record in records)

    def test_undone_records_are_lost(self) -> None:
        accumulator = Accumulator(wakes := Wakes())
        records = held(accumulator, 0, 3) + held(accumulator, 4, 5)
        accumulator.undo([])
        assert wakes.count == 0
        accumulator.undo(records[1:3] + records[4:])
        assert [(*fields(batch), batch.unseen) for batch in accumulator.drain()] == [
            (1, 2, RELEASE, None, True),
            (4, 5, RELEASE, None, True),
        ]
        assert [record.lock_lost for record in records] == [False, True, True, False, True, True]
        assert accumulator.unacknowledged == 2
        assert accumulator.pending() == []

    def test_drain_permits_another_wake_up(self) -> None:
        accumulator = Accumulator(wakes := Wakes())
        records = held(accumulator)
        records[0].accept()
        accumulator.drain()
        records[1].accept()
        assert wakes.count == 2


class TestReplacing:
    def test_queued_acknowledgement_is_replaced(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        first = record.release(2.0)
        assert record.accept() is first
        assert drained(accumulator) == [(0, 0, ACCEPT, None)]

    @pytest.mark.parametrize("done", [False, True])
    def test_sent_acknowledgement_is_final(self, done: bool) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        record.accept()
        (batch,) = accumulator.drain()
        if done:
            accumulator.resolve(batch.id, None, 0)
        with pytest.raises(IllegalStateError, match="ACCEPT"):
            record.release()

    def test_failed_acknowledgement_can_be_retried(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        refused = record.accept()
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE), 0)
        assert record.accept() is not refused
        assert drained(accumulator) == [(0, 0, ACCEPT, None)]

    def test_renewal_permits_final_acknowledgement(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        renewal = record.renew()
        (renewing,) = accumulator.drain()
        acceptance = record.accept()
        assert acceptance is not renewal
        accumulator.resolve(renewing.id, None, 50.0)
        assert record.acknowledgement is acceptance
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, None, 0)
        assert renewal.done
        assert acceptance.done


class TestResults:
    def test_each_record_has_its_own_result(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 3)
        acknowledgements = [records[0].accept(), records[1].accept(), records[3].accept()]
        good, bad = sorted(accumulator.drain(), key=lambda batch: batch.first)
        assert [a.progress for a in acknowledgements] == [Progress.SENT] * 3
        accumulator.resolve(good.id, None, 0)
        accumulator.resolve(bad.id, REFUSED, 0)
        assert [a.error for a in acknowledgements] == [None, None, REFUSED]
        assert all(a.done for a in acknowledgements)
        assert not accumulator.has_unconfirmed

    def test_unknown_result_is_ignored(self) -> None:
        assert Accumulator(nothing).resolve(7, None, 0) is None

    def test_on_outcome_receives_each_reported_batch(self) -> None:
        outcomes: list[tuple[int, int, KafkaError | None]] = []
        accumulator = Accumulator(
            nothing, on_outcome=lambda batch, error: outcomes.append((batch.first, batch.last, error))
        )
        records = held(accumulator, 0, 4)
        accumulator.queue_internal(records[4].acquisition, (4, 4), AcknowledgeType.GAP)
        records[0].accept()
        records[2].accept()
        assert unconfirmed_offsets(accumulator) == [0, 2]
        first = min(accumulator.drain(), key=lambda batch: batch.first)
        assert unconfirmed_offsets(accumulator) == [0, 2]
        accumulator.resolve(first.id, None, 0)
        lost = ConnectionLostError()
        accumulator.close(lost)
        records[3].accept()
        assert outcomes == [(0, 0, None), (2, 2, lost), (3, 3, lost)]

    def test_has_unconfirmed_until_resolved(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        seen = [accumulator.has_unconfirmed]
        record.accept()
        seen.append(accumulator.has_unconfirmed)
        (batch,) = accumulator.drain()
        seen.append(accumulator.has_unconfirmed)
        accumulator.resolve(batch.id, None, 0)
        seen.append(accumulator.has_unconfirmed)
        assert seen == [False, True, True, False]

    def test_repr_shows_progress(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        acknowledgement = record.accept()
        assert repr(acknowledgement) == "Acknowledgement(ACCEPT: QUEUED)"
        acknowledgement.complete(REFUSED)
        assert repr(acknowledgement) == "Acknowledgement(ACCEPT: INVALID_RECORD_STATE)"


class TestHolding:
    def test_acquisition_is_held_until_last_acknowledgement_is_sent(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 2)
        records[0].accept()
        assert accumulator.unacknowledged == 3
        accumulator.drain()
        assert accumulator.unacknowledged == 2
        records[1].renew()
        accumulator.drain()
        assert accumulator.unacknowledged == 2
        accumulator.queue_internal(records[1].acquisition, (1, 2), AcknowledgeType.GAP)
        accumulator.drain()
        assert (accumulator.unacknowledged, accumulator.held) == (0, set())

    def test_renewal_of_all_sets_deadline(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 1)
        renewals = [record.renew() for record in records]
        (batch,) = accumulator.drain()
        assert not renewals[0].is_confirmed_renewal
        accumulator.resolve(batch.id, None, 77.0)
        assert [record.deadline for record in records] == [77.0, 77.0]
        assert [renewal.is_confirmed_renewal for renewal in renewals] == [True, True]

    def test_partial_renewal_sets_only_its_deadline(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 2)
        records[0].acquisition.deadline = 30.0
        for deadline in (77.0, 99.0):
            records[1].renew()
            (batch,) = accumulator.drain()
            accumulator.resolve(batch.id, None, deadline)
        assert [record.deadline for record in records] == [30.0, 99.0, 30.0]
        assert len(records[0].acquisition.renewed) == 1
        records[0].acquisition.renew(0, 2, 120.0)
        assert [record.deadline for record in records] == [120.0, 120.0, 120.0]

    def test_failed_renewal_keeps_deadline(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        record.acquisition.deadline = 30.0
        renewal = record.renew()
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, REFUSED, 0)
        assert (renewal.error, renewal.is_confirmed_renewal, record.deadline) == (REFUSED, False, 30.0)

    def test_one_batch_with_different_outcomes(self) -> None:
        outcomes: list[tuple[int, int, KafkaError | None]] = []
        accumulator = Accumulator(
            nothing, on_outcome=lambda batch, error: outcomes.append((batch.first, batch.last, error))
        )
        records = held(accumulator, 0, 9)
        words = [record.accept() for record in records]
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, REFUSED, 0, (4, 5))
        assert [word.done for word in words] == [4 <= offset <= 5 for offset in range(10)]
        assert unconfirmed_offsets(accumulator) == [0, 1, 2, 3, 6, 7, 8, 9]
        accumulator.resolve(batch.id, None, 0, (0, 3))
        accumulator.resolve(batch.id, None, 0, (6, 90))
        assert [word.error for word in words] == [None] * 4 + [REFUSED] * 2 + [None] * 4
        assert outcomes == [(4, 5, REFUSED), (0, 3, None), (6, 9, None)]
        assert not accumulator.has_unconfirmed
        assert accumulator.resolve(batch.id, None, 0, (0, 9)) is None

    def test_result_for_other_offsets_completes_the_rest(self) -> None:
        accumulator = Accumulator(nothing)
        words = [record.accept() for record in held(accumulator, 5, 7)]
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, None, 0, (5, 5))
        accumulator.resolve(batch.id, REFUSED, 0, (0, 0))
        assert [word.error for word in words] == [None, REFUSED, REFUSED]
        assert not accumulator.has_unconfirmed

    def test_token_zero_loses_locks_of_any_token(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 3)
        records[0].acquisition.token = 7
        accumulator.note_lock_lost("id", 0, (0, 2**63 - 1), token=0)
        assert all(record.lock_lost for record in records)
        assert accumulator.unacknowledged == 0

    def test_lost_locks_are_not_held(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 9)
        accumulator.note_lock_lost("id", 0, (3, 5), token=9)
        accumulator.note_lock_lost("other", 0, (3, 5), token=0)
        accumulator.note_lock_lost("id", 0, (20, 30), token=0)
        assert not any(record.lock_lost for record in records)
        accumulator.note_lock_lost("id", 0, (3, 5), token=0)
        assert [record.offset for record in records if record.lock_lost] == [3, 4, 5]
        assert accumulator.unacknowledged == 7
        accumulator.note_lock_lost("id", 0, (0, 2), token=0)
        accumulator.note_lock_lost("id", 0, (6, 90), token=0)
        assert (accumulator.unacknowledged, accumulator.held) == (0, set())

    def test_each_unconfirmed_offset_is_returned_once(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 5)
        for record in records[:3]:
            record.accept()
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, None, 0, (0, 0))
        accumulator.resolve(batch.id, REFUSED, 0, (1, 1))
        accumulator.queue_internal(records[3].acquisition, (3, 3), AcknowledgeType.GAP)
        ((_, first),) = accumulator.note_lock_lost("id", 0, (0, 4), token=0)
        ((_, second),) = accumulator.note_lock_lost("id", 0, (2, 4), token=0)
        ((_, last),) = accumulator.close(ConnectionLostError())
        assert (first, second, last) == ([1, 2, 4], [], [5])

    def test_an_acquisition_with_all_acknowledgements_in_flight_is_locked(self) -> None:
        accumulator = Accumulator(nothing)
        for record in held(accumulator, 0, 1):
            record.accept()
        accumulator.drain()
        assert accumulator.held == set()
        ((_, lost),) = accumulator.close(ConnectionLostError())
        assert lost == [0, 1]

    def test_a_confirmed_renewal_does_not_settle_a_record(self) -> None:
        accumulator = Accumulator(nothing)
        held(accumulator, 0, 0)[0].renew()
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, None, 0)
        ((_, lost),) = accumulator.close(ConnectionLostError())
        assert lost == [0]


class TestClosing:
    def test_close_fails_queued_and_in_flight(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 2)
        sent = records[0].accept()
        accumulator.drain()
        queued = records[1].accept()
        error = ConnectionLostError()
        accumulator.close(error)
        late = records[2].accept()
        assert [sent.error, queued.error, late.error] == [error] * 3
        assert accumulator.held == set()
        assert accumulator.unacknowledged == 0
        assert records[0].lock_lost

    def test_connection_lost_error_message(self) -> None:
        assert "response arrived: reset" in str(ConnectionLostError("reset"))


class TestWaiting:
    async def test_await_returns_outcome(self) -> None:
        accumulator = Accumulator(nothing)
        records = held(accumulator, 0, 1)
        good, bad = records[0].accept(), records[1].reject()
        waiting = asyncio.gather(good, bad, bad, return_exceptions=True)
        batches = accumulator.drain()
        await asyncio.sleep(0)
        for sent in batches:
            accumulator.resolve(sent.id, REFUSED if sent.kind is REJECT else None, 0)
        assert list(await waiting) == [None, REFUSED, REFUSED]
        await good
        assert good.result() is None  # type: ignore[func-returns-value]  # that is what is tested

    async def test_cancelled_await_is_harmless(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        acknowledgement = record.accept()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(acknowledgement, 0)
        (batch,) = accumulator.drain()
        accumulator.resolve(batch.id, None, 0)
        await acknowledgement

    def test_thread_waits_for_result(self) -> None:
        accumulator = Accumulator(nothing)
        (record,) = held(accumulator, 0, 0)
        acknowledgement = record.accept()
        with pytest.raises(TimeoutError):
            acknowledgement.result(timeout=0)
        (batch,) = accumulator.drain()
        thread = threading.Thread(target=accumulator.resolve, args=(batch.id, REFUSED, 0))
        thread.start()
        with pytest.raises(KafkaError) as caught:
            acknowledgement.result(timeout=30)
        thread.join()
        assert caught.value is REFUSED


def test_unacknowledged_records_are_renewed_when_due() -> None:
    accumulator, renewal = Accumulator(lambda: None), Renewal()
    records = decode(batch(0, [b"v"] * 4), [acquisition(0, 3, accumulator)]).records
    renewal.watch(records, 0.0)
    records[1].accept()
    accumulator.note_lock_lost("id", 0, (3, 3), token=0)
    accumulator.drain()
    renewal.renew((accumulator,), 4.0, 5.0)
    assert accumulator.drain() == []
    renewal.renew((accumulator,), 5.0, 5.0)
    renewed = [(ack.first, ack.last, ack.kind) for ack in accumulator.drain()]
    assert renewed == [(0, 0, AcknowledgeType.RENEW), (2, 2, AcknowledgeType.RENEW)]
    renewal.renew((accumulator,), 9.0, 5.0)
    assert accumulator.drain() == []


def test_records_of_an_earlier_stream_are_dropped() -> None:
    earlier, present, renewal = Accumulator(lambda: None), Accumulator(lambda: None), Renewal()
    renewal.watch(decode(batch(0, [b"v"]), [acquisition(0, 0, earlier)]).records, 0.0)
    renewal.renew((present,), 10.0, 5.0)
    assert earlier.drain() == present.drain() == []


@pytest.mark.parametrize("lock", [0, 0.999, -1, 86_400.001, math.nan, math.inf])
def test_a_lock_that_no_broker_permits_is_rejected(lock: float) -> None:
    accumulator = Accumulator(lambda: None)
    (record,) = decode(batch(0, [b"v"]), [acquisition(0, 0, accumulator)]).records
    with pytest.raises(ValueError, match="A lock must last between 1 and 86400 seconds"):
        record.renew(lock)
    assert accumulator.drain() == []
    for permitted in (1, 86_400):
        record.renew(permitted)
        (sent,) = accumulator.drain()
        assert sent.detail == permitted * 1000


def test_automatic_renewal_keeps_the_length_of_the_application() -> None:
    accumulator, renewal = Accumulator(lambda: None), Renewal()
    records = decode(batch(0, [b"v"] * 3), [acquisition(0, 2, accumulator)]).records
    renewal.watch(records, 0.0)
    records[1].renew(3600)
    (own,) = accumulator.drain()
    assert (own.kind, own.detail) == (AcknowledgeType.RENEW, 3_600_000)
    renewal.renew((accumulator,), 5.0, 5.0)
    renewed = {(ack.first, ack.last, ack.detail) for ack in accumulator.drain()}
    assert renewed == {(0, 0, None), (2, 2, None), (1, 1, 3_600_000)}
