"""Rules between one poll and the next."""

from __future__ import annotations

import pytest

from sharebroker.aio.steps import PollBatch
from sharebroker.consumer.accumulator import Accumulator, ImplicitAccumulator
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.batches import decode
from sharebroker_protocol.records.record import AcknowledgeType, Record
from tests.unit.client.batches import acquisition, batch

RENEW = AcknowledgeType.RENEW


class Harness:
    """A poll batch with records, and a server that confirms on request."""

    def __init__(self, explicit: bool = True, count: int = 3) -> None:
        self.accumulator = (Accumulator if explicit else ImplicitAccumulator)(lambda: None)
        self.poll_batch = PollBatch(explicit)
        self.records = self.more(0, count)

    def more(self, first: int, count: int) -> list[Record]:
        acquired = acquisition(first, first + count - 1, self.accumulator)
        records = decode(batch(first, [b"v"] * count), [acquired]).records
        self.poll_batch.replace(records)
        return records

    def confirm(self, error: KafkaError | None = None) -> None:
        for run in self.accumulator.drain():
            self.accumulator.resolve(run.id, error, 99.0)


def test_explicit_mode_requires_acknowledgements() -> None:
    harness = Harness()
    with pytest.raises(IllegalStateError, match="3 records are not acknowledged"):
        harness.poll_batch.check_acknowledged()
    for record in harness.records[:2]:
        record.accept()
    harness.poll_batch.accept_remaining()  # nothing, in explicit mode
    with pytest.raises(IllegalStateError, match="1 records"):
        harness.poll_batch.check_acknowledged()
    harness.accumulator.note_lock_lost("id", 0, (2, 2), token=0)
    harness.poll_batch.check_acknowledged()


def test_implicit_mode_accepts_remaining_once() -> None:
    harness = Harness(explicit=False)
    harness.poll_batch.check_acknowledged()
    harness.accumulator.note_lock_lost("id", 0, (1, 1), token=0)
    harness.poll_batch.accept_remaining()
    harness.poll_batch.accept_remaining()
    assert [(run.first, run.last, run.kind) for run in harness.accumulator.drain()] == [
        (0, 0, AcknowledgeType.ACCEPT),
        (2, 2, AcknowledgeType.ACCEPT),
    ]


def test_iterated_records_stay_until_acknowledged() -> None:
    harness = Harness(count=6)
    poll_batch = PollBatch(explicit=True)
    for record in harness.records:
        poll_batch.add(record)
    harness.records[0].accept()
    harness.records[1].renew()
    refused = harness.records[2].accept()
    harness.confirm()
    refused.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    harness.accumulator.note_lock_lost("id", 0, (3, 3), token=0)
    assert [record.offset for record in poll_batch.pop_unacknowledged()] == [1, 2, 4, 5]
    assert poll_batch.pop_unacknowledged() == []


def test_acknowledged_records_are_swept() -> None:
    poll_batch = PollBatch(explicit=True)
    for _ in range(50):
        for record in Harness(count=100).records:
            poll_batch.add(record)
            if record.offset:
                record.accept()
        assert len(poll_batch._records) < 1200
    assert len(poll_batch.pop_unacknowledged()) == 50


def test_implicit_iteration_is_accepted_as_one_batch() -> None:
    harness = Harness(explicit=False, count=4)
    poll_batch = PollBatch(explicit=False)
    harness.accumulator.note_lock_lost("id", 0, (3, 3), token=0)
    for record in harness.records:
        poll_batch.accept_remaining()
        poll_batch.add(record)
    poll_batch.accept_remaining()
    assert [(run.first, run.last, run.kind) for run in harness.accumulator.drain()] == [
        (0, 2, AcknowledgeType.ACCEPT)
    ]


def test_renewed_records_are_returned_again() -> None:
    harness = Harness()
    harness.records[0].accept()
    harness.records[1].renew()
    refused = harness.records[2].renew()
    harness.poll_batch.check_acknowledged()
    assert harness.poll_batch.renewal_pending
    assert harness.poll_batch.pop_renewed() == []
    first, *others = sorted(harness.accumulator.drain(), key=lambda run: run.first)
    harness.accumulator.resolve(first.id, None, 0.0)
    for run in others:
        harness.accumulator.resolve(run.id, None, 99.0)
    refused.error = KafkaError(ErrorCode.INVALID_RECORD_STATE)
    assert not harness.poll_batch.renewal_pending
    assert harness.poll_batch.pop_renewed() == [harness.records[1]]
    harness.records[1].accept()
    harness.poll_batch.check_acknowledged()


def test_records_can_be_renewed_repeatedly() -> None:
    harness = Harness(count=1)
    for _ in range(2):
        harness.records[0].renew()
        harness.confirm()
        harness.poll_batch.check_acknowledged()
        assert harness.poll_batch.pop_renewed() == harness.records
    assert harness.records[0].acknowledgement is None
