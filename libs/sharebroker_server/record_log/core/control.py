"""Control batches: the markers that end a transaction (Kafka: EndTransactionMarker, ControlRecordType)."""

from __future__ import annotations

import struct
from typing import Final

from crc32c import crc32c

from sharebroker_server.record_log.core.batch import HEADER_SIZE, LENGTH_STARTS, StoredBatch
from sharebroker_server.record_log.core.producers import Marker

_HEADER: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_RECORD: Final = struct.Struct(">bbbbbhhbhib")

_CONTROL_AND_TRANSACTIONAL: Final = 0x30
_MAGIC: Final = 2
_ABORT, _COMMIT = 0, 1


def marker_batch(marker: Marker, offset: int, leader_epoch: int, now_ms: int) -> StoredBatch:
    """Returns a batch with one record: key (version, type), value (version, coordinator epoch)."""
    kind = _COMMIT if marker.commit else _ABORT
    record = _RECORD.pack(
        # Lengths are zigzag varints: twice the value.
        2 * (_RECORD.size - 1), 0, 0, 0,
        2 * 4, 0, kind,
        2 * 6, 0, marker.coordinator_epoch,
        0,
    )  # fmt: skip
    header = (marker.producer_id, marker.producer_epoch, -1, 1)
    checked = _CHECKED.pack(_CONTROL_AND_TRANSACTIONAL, 0, now_ms, now_ms, *header) + record
    length = HEADER_SIZE + len(record) - LENGTH_STARTS
    data = _HEADER.pack(offset, length, leader_epoch, _MAGIC, crc32c(checked)) + checked
    return StoredBatch(offset, offset, data, now_ms, control=True)
