"""Records of share-partition state in Kafka's own form, as its topic __share_group_state shows them.

A checkpoint is Kafka's ShareSnapshot (record type 0), a delta its ShareUpdate (1). Keys and values begin with
two bytes: the key's say which type it is, the value's of which version it is. Values are of the flexible
kind: compact arrays, tagged fields. Kafka knows no delta index and deletes by one tombstone; here each delta
has its own (source: ShareSnapshotKey.json and its three neighbours, Kafka 4.3).
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from libs.record_log.core.batch import LEADER_EPOCH, assign, header_of
from services.share_coordinator.core.combine import StateBatch
from services.share_coordinator.core.key import INT32_MAX, ShareKey
from services.share_coordinator.core.records import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from sharebroker.records.batch_builder import BatchBuilder
from sharebroker.records.compression import CODECS

SNAPSHOT: Final = 0
UPDATE: Final = 1

_VERSION: Final = 0
_COUNT_UNKNOWN: Final = -1  # Kafka's default, which is not written
_NO_TAGS: Final = b"\x00"

_SNAPSHOT: Final = struct.Struct(">hiiiqqq")
_UPDATE: Final = struct.Struct(">hiiq")
_BATCH: Final = struct.Struct(">qqbhx")  # the last byte: no tagged fields
_COUNT_TAG: Final = struct.Struct(">BBBi")  # one tagged field, tag 0, 4 bytes long
_PARTITION: Final = struct.Struct(">i")
_INT16: Final = struct.Struct(">h")


class KafkaRecord(NamedTuple):
    """What a consumer receives; without a value it is a tombstone."""

    timestamp_ms: int
    key: bytes
    value: bytes | None

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key) + len(self.value or b"")


def kafka_record(record: ShareRecord) -> KafkaRecord:
    """A record of the shard's log in Kafka's form."""
    record_type, value = _VALUES[type(record)]
    return KafkaRecord(record.write_timestamp_ms, _key(record_type, record.key), value(record))


def record_batch(base_offset: int, records: Sequence[KafkaRecord]) -> bytes:
    """One record batch (magic 2, not compressed) of records with consecutive offsets from `base_offset`."""
    builder = BatchBuilder(CODECS["none"], INT32_MAX)
    for record in records:
        builder.append(*record)
    data = builder.build()
    return assign(data, [header_of(data)], base_offset, LEADER_EPOCH)[0].data


def _key(record_type: int, key: ShareKey) -> bytes:
    group_id = key.group_id.encode()
    return b"".join(
        (
            _INT16.pack(record_type),
            _INT16.pack(len(group_id)),
            group_id,
            urlsafe_b64decode(key.topic_id + "=="),
            _PARTITION.pack(key.partition),
        )
    )


def _snapshot(record: ShareCheckpoint) -> bytes:
    head = _SNAPSHOT.pack(
        _VERSION,
        record.checkpoint_epoch,
        record.state_epoch,
        record.leader_epoch,
        record.start_offset,
        record.create_timestamp_ms,
        record.write_timestamp_ms,
    )
    return head + _tail(record.state_batches, record.delivery_complete_count)


def _update(record: ShareDelta) -> bytes:
    head = _UPDATE.pack(_VERSION, record.checkpoint_epoch, record.leader_epoch, record.start_offset)
    return head + _tail(record.state_batches, record.delivery_complete_count)


def _tail(batches: Iterable[StateBatch], delivery_complete_count: int) -> bytes:
    """State batches, then the delivery complete count as tagged field 0 where it is known."""
    packed = [_BATCH.pack(*batch) for batch in batches]
    known = delivery_complete_count != _COUNT_UNKNOWN
    count = _COUNT_TAG.pack(1, 0, 4, delivery_complete_count) if known else _NO_TAGS
    return b"".join((_unsigned_varint(len(packed) + 1), *packed, count))


def _unsigned_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _tombstone(_: object) -> None:
    return None


_VALUES: Final[Mapping[type, tuple[int, Callable[[Any], bytes | None]]]] = {
    ShareCheckpoint: (SNAPSHOT, _snapshot),
    ShareDelta: (UPDATE, _update),
    CheckpointTombstone: (SNAPSHOT, _tombstone),
    DeltaTombstone: (UPDATE, _tombstone),
}
