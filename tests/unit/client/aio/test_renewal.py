"""Automatic renewal of locks."""

from __future__ import annotations

from sharebroker.acks.accumulator import Accumulator
from sharebroker.aio.renewal import Renewal
from sharebroker_protocol.records.decode import decode
from sharebroker_protocol.records.record import AcknowledgeType
from tests.unit.client.batches import acquisition, batch


def test_unacknowledged_records_are_renewed_when_due() -> None:
    accumulator, renewal = Accumulator(lambda: None), Renewal()
    records = decode(batch(0, [b"v"] * 4), [acquisition(0, 3, accumulator)]).records
    renewal.watch(records, 0.0)
    records[1].accept()
    accumulator.note_lock_lost("id", 0, (3, 3), token=0)
    accumulator.drain()
    renewal.renew(accumulator, 4.0, 5.0)
    assert accumulator.drain() == []
    renewal.renew(accumulator, 5.0, 5.0)
    renewed = [(ack.first, ack.last, ack.kind) for ack in accumulator.drain()]
    assert renewed == [(0, 0, AcknowledgeType.RENEW), (2, 2, AcknowledgeType.RENEW)]
    renewal.renew(accumulator, 9.0, 5.0)
    assert accumulator.drain() == []


def test_records_of_an_earlier_stream_are_dropped() -> None:
    earlier, present, renewal = Accumulator(lambda: None), Accumulator(lambda: None), Renewal()
    renewal.watch(decode(batch(0, [b"v"]), [acquisition(0, 0, earlier)]).records, 0.0)
    renewal.renew(present, 10.0, 5.0)
    assert earlier.drain() == present.drain() == []
