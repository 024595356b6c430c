"""Control batches with the state of share groups, against an independent decoder and by bytes."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.share_control import (
    SHARE_CHECKPOINT,
    SHARE_DELTA,
    ControlRecord,
    control_batch,
    control_records,
)
from sharebroker_server.record_log.core.transactions import marker_batch
from tests.unit.record_log.batches import stored

TIME = 1_700_000_000_000
RECORDS = [
    ControlRecord(SHARE_CHECKPOINT, TIME, b"checkpoint"),
    ControlRecord(SHARE_DELTA, TIME + 5, b""),
    ControlRecord(SHARE_DELTA, TIME - 3, b"\x00" * 300),
]


def test_a_control_batch_has_the_control_flag_and_no_producer() -> None:
    batch = control_batch(RECORDS, 130)
    header = header_of(batch.data)
    assert (header.attributes, header.magic, header.leader_epoch) == (0x20, 2, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.base_offset, header.last_offset, header.record_count) == (130, 132, 3)
    assert (batch.base_offset, batch.last_offset, batch.max_timestamp) == (130, 132, TIME + 5)
    assert StoredBatch.from_bytes(batch.data) == batch
    decoded = DefaultRecordBatch(batch.data)
    assert decoded.validate_crc()
    assert decoded.is_control_batch
    assert [(r.offset, bytes(r.key), r.timestamp) for r in decoded] == [
        (130, b"\0\0\0\x05", TIME),
        (131, b"\0\0\0\x06", TIME + 5),
        (132, b"\0\0\0\x06", TIME - 3),
    ]


def test_control_records_are_read_unchanged() -> None:
    assert control_records(control_batch(RECORDS, 7)) == [(7, RECORDS[0]), (8, RECORDS[1]), (9, RECORDS[2])]


@pytest.mark.parametrize(
    ("batch", "state"),
    [
        (control_batch(RECORDS, 3), True),
        (stored(3), False),
        (marker_batch(Marker(7, 0, 0, commit=True), 3, 0, TIME), False),
    ],
)
def test_only_batches_with_share_state_are_hidden_from_readers(batch: StoredBatch, state: bool) -> None:
    assert batch.has_share_state is state


@pytest.mark.parametrize("type_", [0, 1, 4, 7])
def test_a_control_record_of_another_type_is_rejected(type_: int) -> None:
    with pytest.raises(ValueError, match=f"type {type_}"):
        control_records(control_batch([ControlRecord(type_, TIME, b"")], 0))


def test_a_marker_is_not_a_control_record_of_share_state() -> None:
    with pytest.raises(ValueError, match="type 1"):
        control_records(marker_batch(Marker(7, 0, 0, commit=True), 3, 0, TIME))
