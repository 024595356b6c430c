"""Committed offsets in the format of Kafka's topic __consumer_offsets.

A key starts with two bytes for its type, a value with two bytes for its version. Values use the flexible
encoding: compact strings and tagged fields (source: OffsetCommitKey.json and OffsetCommitValue.json, Kafka
4.3).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.topics import INTERNAL_TOPIC_NAMES
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed
from sharebroker_server.group_coordinator.core.consumer_groups.offsets import OffsetRecord
from sharebroker_server.group_coordinator.core.machine import Record
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.kafka_wire.encoder import put_uvarint
from sharebroker_server.kafka_wire.schema import id_bytes
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


_CACHE_DELAY: Final = 60.0
"""Seconds after a commit in which an unknown topic may be missing from the metadata cache only."""


def offset_commit(record: OffsetRecord, topic: str) -> KafkaRecord:
    """Returns a commit, or a tombstone; `topic` is the name of the record's topic."""
    key = _INT16.pack(OFFSET_COMMIT) + _text(record.group_id) + _text(topic)
    key += _INT32.pack(record.partition.partition)
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


class OffsetsTopic:
    """The records of a shard's log as Kafka's topic shows them. `clock` returns epoch seconds."""

    def __init__(self, view: MetadataImage, clock: Callable[[], float]) -> None:
        self._view = view
        self._clock = clock

    def record(self, record: Record) -> KafkaRecord | None:
        """Returns a record of the topic; None if the topic does not show it.

        Raises COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not isinstance(record, OffsetRecord):
            return None
        name = self._name(record)
        return None if name is None else offset_commit(record, name)

    def _name(self, record: OffsetRecord) -> str | None:
        """Returns the name of the record's topic; None if deleted, for its name may be another topic's now.

        Raises COORDINATOR_LOAD_IN_PROGRESS for a topic that is not in the metadata cache yet.
        """
        topic_id, committed = record.partition.topic_id, record.committed
        topic = self._view.topic_by_id(topic_id)
        if topic is not None:
            return topic.name
        if topic_id in INTERNAL_TOPIC_NAMES:
            return INTERNAL_TOPIC_NAMES[topic_id]
        if committed is not None and not self._view.is_deleted(topic_id):
            self._check_not_new(topic_id, committed.at_ms / 1000)
        return None

    def _check_not_new(self, topic_id: str, committed_at: float) -> None:
        if self._clock() - committed_at < _CACHE_DELAY:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Topic {topic_id} is not known yet.")
