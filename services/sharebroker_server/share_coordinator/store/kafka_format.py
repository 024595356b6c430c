"""Encodes records of share-partition state in Kafka's format, as in its topic `__share_group_state`.

A checkpoint is Kafka's ShareSnapshot (record type 0), a delta its ShareUpdate (1). Keys and values start with
two bytes: the record type in a key, the version in a value. Values use the flexible encoding: compact arrays
and tagged fields. Kafka has no delta index and deletes with one tombstone; here each delta has its own
(source: ShareSnapshotKey.json and its three siblings, Kafka 4.3).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.kafka_wire.encoder import put_uvarint
from sharebroker_server.kafka_wire.schema import id_bytes
from sharebroker_server.shard_topic.batches import KafkaRecord
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)

SNAPSHOT: Final = 0
UPDATE: Final = 1

_VERSION: Final = 0
_COUNT_UNKNOWN: Final = -1  # Kafka's default, which is not written
_NO_TAGS: Final = b"\x00"

_SNAPSHOT: Final = struct.Struct(">hiiiqqq")
_UPDATE: Final = struct.Struct(">hiiq")
_BATCH: Final = struct.Struct(">qqbhx")  # the last byte: no tagged fields
_COUNT_TAG: Final = struct.Struct(">BBBi")  # one tagged field with tag 0 and 4 bytes
_KEY_HEAD: Final = struct.Struct(">hh")
_PARTITION: Final = struct.Struct(">i")


def kafka_record(record: ShareRecord) -> KafkaRecord:
    """Returns a record of the shard's log in Kafka's format."""
    record_type, value = _VALUES[type(record)]
    return KafkaRecord(record.write_timestamp_ms, _key(record_type, record.key), value(record))


def _key(record_type: int, key: SharePartitionKey) -> bytes:
    group_id = key.group_id.encode()
    head = _KEY_HEAD.pack(record_type, len(group_id))
    return head + group_id + id_bytes(key.topic_id) + _PARTITION.pack(key.partition)


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
    """Returns the state batches without notes, then the delivery complete count as tag 0 if it is known."""
    packed = [_BATCH.pack(*batch[:4]) for batch in batches]
    known = delivery_complete_count != _COUNT_UNKNOWN
    count = _COUNT_TAG.pack(1, 0, 4, delivery_complete_count) if known else _NO_TAGS
    tail = bytearray()
    put_uvarint(tail, len(packed) + 1)
    return b"".join((tail, *packed, count))


_VALUES: Final[Mapping[type, tuple[int, Callable[[Any], bytes | None]]]] = {
    ShareCheckpoint: (SNAPSHOT, _snapshot),
    ShareDelta: (UPDATE, _update),
    CheckpointTombstone: (SNAPSHOT, lambda _: None),
    DeltaTombstone: (UPDATE, lambda _: None),
}
