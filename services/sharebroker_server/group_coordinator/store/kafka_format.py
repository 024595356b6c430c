"""Committed offsets in the format of Kafka's topic __consumer_offsets.

A key starts with two bytes for its type, a value with two bytes for its version. Values use the flexible
encoding: compact strings and tagged fields (source: OffsetCommitKey.json and OffsetCommitValue.json, Kafka
4.3).
"""

from __future__ import annotations

import struct
from typing import Final

from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.kafka_wire.encoder import put_uvarint
from sharebroker_server.kafka_wire.message_classes import id_bytes
from sharebroker_server.shard_topic.batches import KafkaRecord

OFFSET_COMMIT: Final = 1
_VERSION: Final = 4

_NO_TIME: Final = -1
"""A tombstone has no timestamp."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqi")
_TOPIC_ID: Final = b"\x01\x00\x10"
"""One tagged field, tag 0, 16 bytes long."""


def offset_commit(record: OffsetRecord, topic: str) -> KafkaRecord:
    """Returns a commit, or a tombstone; `topic` is the name of the record's topic."""
    key = b"".join(
        (
            _INT16.pack(OFFSET_COMMIT),
            _text(record.group_id),
            _text(topic),
            _INT32.pack(record.partition.partition),
        )
    )
    committed = record.committed
    if committed is None:
        return KafkaRecord(_NO_TIME, key, None)
    return KafkaRecord(committed.at_ms, key, _value(committed, record.partition.topic_id))


def _value(committed: Committed, topic_id: str) -> bytes:
    value = bytearray(_HEAD.pack(_VERSION, committed.offset, committed.leader_epoch))
    metadata = committed.metadata.encode()
    put_uvarint(value, len(metadata) + 1)
    value += metadata
    value += _INT64.pack(committed.at_ms)
    value += _TOPIC_ID
    value += id_bytes(topic_id)
    return bytes(value)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded
