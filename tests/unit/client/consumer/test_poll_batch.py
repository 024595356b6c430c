"""What may be asked for next."""

from __future__ import annotations

import pytest

from sharebroker.acks.accumulator import Accumulator
from sharebroker.consumer.poll_batch import PollBatch
from sharebroker_protocol.errors import ErrorCode, IllegalStateError, KafkaError
from sharebroker_protocol.records.decode import decode
from sharebroker_protocol.records.record import AcknowledgeType, Record
from tests.unit.client.batches import acquisition, batch

RENEW = AcknowledgeType.RENEW


class Given:
    """Records handed out, and a server that confirms when told."""

    def __init__(self, explicit: bool = True, count: int = 3) -> None:
        self.accumulator = Accumulator(lambda: None, explicit)
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


def test_explicit_every_record_needs_an_answer() -> None:
    given = Given()
    with pytest.raises(IllegalStateError, match="3 records are not acknowledged"):
        given.poll_batch.check_acknowledged()
    for record in given.records[:2]:
        record.accept()
    given.poll_batch.accept_remaining()  # nothing, in explicit mode
    with pytest.raises(IllegalStateError, match="1 records"):
        given.poll_batch.check_acknowledged()
    given.accumulator.note_lock_lost("id", 0, (2, 2), token=0)
    given.poll_batch.check_acknowledged()


def test_implicit_the_rest_is_accepted_once() -> None:
    given = Given(explicit=False)
    given.poll_batch.check_acknowledged()
    given.accumulator.note_lock_lost("id", 0, (1, 1), token=0)
    given.poll_batch.accept_remaining()
    given.poll_batch.accept_remaining()
    assert [(run.first, run.last, run.kind) for run in given.accumulator.drain()] == [
        (0, 0, AcknowledgeType.ACCEPT),
        (2, 2, AcknowledgeType.ACCEPT),
    ]


def test_records_given_one_by_one_stay_open_until_they_are_answered() -> None:
    given = Given(count=6)
    poll_batch = PollBatch(explicit=True)
    for record in given.records:
        poll_batch.add(record)
    given.records[0].accept()
    given.records[1].renew()
    refused = given.records[2].accept()
    given.confirm()
    refused.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    given.accumulator.note_lock_lost("id", 0, (3, 3), token=0)
    assert [record.offset for record in poll_batch.pop_unacknowledged()] == [1, 2, 4, 5]
    assert poll_batch.pop_unacknowledged() == []


def test_what_is_answered_is_forgotten_now_and_then() -> None:
    poll_batch = PollBatch(explicit=True)
    for _ in range(50):
        for record in Given(count=100).records:
            poll_batch.add(record)
            if record.offset:
                record.accept()
        assert len(poll_batch._records) < 1200
    assert len(poll_batch.pop_unacknowledged()) == 50


def test_implicit_records_given_one_by_one_are_accepted_as_one_run() -> None:
    given = Given(explicit=False, count=4)
    poll_batch = PollBatch(explicit=False)
    given.accumulator.note_lock_lost("id", 0, (3, 3), token=0)
    for record in given.records:
        poll_batch.accept_remaining()
        poll_batch.add(record)
    poll_batch.accept_remaining()
    assert [(run.first, run.last, run.kind) for run in given.accumulator.drain()] == [
        (0, 2, AcknowledgeType.ACCEPT)
    ]


def test_renewed_records_come_again() -> None:
    given = Given()
    given.records[0].accept()
    given.records[1].renew()
    refused = given.records[2].renew()
    given.poll_batch.check_acknowledged()
    assert given.poll_batch.renewal_pending
    assert given.poll_batch.pop_renewed() == []
    first, *others = sorted(given.accumulator.drain(), key=lambda run: run.first)
    given.accumulator.resolve(first.id, None, 0.0)
    for run in others:
        given.accumulator.resolve(run.id, None, 99.0)
    refused.error = KafkaError(ErrorCode.INVALID_RECORD_STATE)
    assert not given.poll_batch.renewal_pending
    assert given.poll_batch.pop_renewed() == [given.records[1]]
    given.records[1].accept()
    given.poll_batch.check_acknowledged()


def test_renewing_again_after_coming_again() -> None:
    given = Given(count=1)
    for _ in range(2):
        given.records[0].renew()
        given.confirm()
        given.poll_batch.check_acknowledged()
        assert given.poll_batch.pop_renewed() == given.records
    assert given.records[0].acknowledgement is None
