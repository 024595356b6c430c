"""Transaction markers as control batches."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_server.record_log.core.batch import header_of
from sharebroker_server.record_log.core.control import marker_batch
from sharebroker_server.record_log.core.producers import Marker


@pytest.mark.parametrize("commit", [True, False])
def test_marker_equals_kafkas_encoding(commit: bool) -> None:
    stored = marker_batch(Marker(7, 3, 12, commit), 100, 5, 1_700_000_000_000)
    header = header_of(stored.data)
    assert (header.size, header.record_count, header.base_sequence) == (len(stored.data), 1, -1)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (100, 5, 1_700_000_000_000)
    assert (header.producer_id, header.producer_epoch) == (7, 3)
    assert (header.control, header.transactional) == (True, True)
    assert stored.control
    decoded = DefaultRecordBatch(stored.data)
    assert decoded.validate_crc()
    assert decoded.is_control_batch
    (record,) = decoded
    assert bytes(record.key) == bytes((0, 0, 0, int(commit)))
    assert bytes(record.value) == b"\0\0" + (12).to_bytes(4)
    assert (record.offset, record.timestamp) == (100, 1_700_000_000_000)
