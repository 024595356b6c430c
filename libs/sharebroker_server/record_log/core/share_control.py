"""Control batches with the state of share groups (decision 0117).

Such a batch has the control flag and no producer id, which distinguishes it from a transaction marker. Its
records have Kafka's control key: version and type, two bytes each. Readers never receive these batches.

Source: the first design of KIP-932, section "Control records". Kafka itself has other records of the types 5
and 6, but only in its metadata log, which no consumer reads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharebroker_server.record_log.core.batch import (
    CONTROL,
    HEADER_SIZE,
    LEADER_EPOCH,
    StoredBatch,
    header_of,
    seal,
)

SHARE_CHECKPOINT: Final = 5
"""The type of a record with the complete state of a group."""

SHARE_DELTA: Final = 6
"""The type of a record with a change to the state of a group."""

_TYPES: Final = frozenset({SHARE_CHECKPOINT, SHARE_DELTA})
_KEY: Final = struct.Struct(">hh")
_KEY_VERSION: Final = 0
_ANY_SIZE: Final = 2**31 - 1


class ControlRecord(NamedTuple):
    """A control record: SHARE_CHECKPOINT or SHARE_DELTA, the time when it was written (ms), and its value."""

    type: int
    timestamp_ms: int
    value: bytes


def control_batch(records: Sequence[ControlRecord], base_offset: int) -> StoredBatch:
    """Returns the batch of these records, at least one, from `base_offset` on."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, _ANY_SIZE)
    for delta, (type_, timestamp_ms, value) in enumerate(records):
        builder.append(delta, timestamp_ms, _KEY.pack(_KEY_VERSION, type_), value, [])
    plain = bytes(builder.build())
    header = header_of(plain)._replace(base_offset=base_offset, leader_epoch=LEADER_EPOCH, attributes=CONTROL)
    data = seal(header, memoryview(plain)[HEADER_SIZE:])
    return StoredBatch(base_offset, header.last_offset, data, header.max_timestamp, control=True)


def control_records(batch: StoredBatch) -> list[tuple[int, ControlRecord]]:
    """Returns the offsets and records of a batch that `has_share_state`.

    Raises:
        ValueError: a record has an unknown key.
    """
    return [
        (record.offset, ControlRecord(_type_of(record.key), record.timestamp, bytes(record.value or b"")))
        for record in DefaultRecordBatch(batch.data)
    ]


def _type_of(key: bytes | None) -> int:
    if key is None or len(key) < _KEY.size:
        raise ValueError(f"a control record with the key {key!r}")
    version, type_ = _KEY.unpack_from(key)
    if version != _KEY_VERSION or type_ not in _TYPES:
        raise ValueError(f"a control record of version {version} and type {type_}")
    return int(type_)
