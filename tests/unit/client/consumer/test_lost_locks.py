"""Reports of lost locks: which records, and the line in the log."""

from __future__ import annotations

from sharebroker import LockLost
from sharebroker.consumer.accumulator import Accumulator
from sharebroker.consumer.lost_locks import describe, received
from sharebroker_protocol.records.batches import decode
from tests.unit.client.batches import acquisition, batch


def lost(count: int) -> list[LockLost]:
    return [LockLost("orders", 2, offset, 3, "it timed out") for offset in range(count)]


def test_records_that_still_wait_are_left_out() -> None:
    run = acquisition(0, 3, Accumulator(lambda: None))
    run.delivery_count = 2
    records = decode(batch(0, [b"v"] * 4), [run]).records
    offsets = run.lose(0, 2)
    assert received([(run, offsets)], records[2:], "it timed out") == [
        LockLost("flights", 0, 0, 2, "it timed out"),
        LockLost("flights", 0, 1, 2, "it timed out"),
    ]


def test_one_record_is_named_in_the_line() -> None:
    text = (
        "The lock on orders-2@0 (delivery 3) was lost: it timed out. Another member may receive the record."
    )
    assert describe(lost(1)) == text


def test_many_records_are_one_line_with_the_first_three() -> None:
    line = describe(lost(1000))
    assert line.startswith("The locks on 1000 records were lost: it timed out. ")
    assert line.endswith(
        "orders-2@0 (delivery 3), orders-2@1 (delivery 3), orders-2@2 (delivery 3) and 997 more."
    )
    assert "more" not in describe(lost(3))
