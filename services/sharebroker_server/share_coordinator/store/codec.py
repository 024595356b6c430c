"""Encodes records of share-partition state as log entries (sharebroker/storage/v1/share_state.proto)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from google.protobuf.message import DecodeError

from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_protocol.storage.v1 import share_state_pb2 as pb
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)

NOT_CHANGED: Final = -1
"""An unchanged leader epoch or start offset in a delta. It is not written, which saves ten bytes each."""


_KEY_CACHE_SIZE: Final = 65_536


class ShareRecordCodec:
    """Encodes with protocol buffers; each record names its kind."""

    def encode(self, record: ShareRecord) -> bytes:
        """Returns the payload of a record."""
        message = pb.ShareStateRecord()
        _WRITERS[type(record)](message, record)
        return _key(record.key) + message.SerializeToString()

    def decode(self, payload: bytes) -> ShareRecord:
        """Returns the record of a payload; raises ValueError if it is invalid or of an unknown kind."""
        try:
            message = pb.ShareStateRecord.FromString(payload)
        except DecodeError as error:
            raise ValueError(f"not a share state record: {error}") from error
        kind = message.WhichOneof("value")
        if kind is None:
            raise ValueError("a share state record without a value that this version knows")
        key = SharePartitionKey(message.key.group_id, message.key.topic_id, message.key.partition)
        return _READERS[kind](key, getattr(message, kind))


@lru_cache(_KEY_CACHE_SIZE)
def _key(key: SharePartitionKey) -> bytes:
    """Returns the encoded key field.

    Concatenated encodings of single fields are the encoding of a message with all of them, so the key's bytes
    can be cached.
    """
    group_id, topic_id, partition = key
    return pb.ShareStateRecord(
        key=pb.SharePartitionKey(group_id=group_id, topic_id=topic_id, partition=partition)
    ).SerializeToString()


def _write_checkpoint(message: pb.ShareStateRecord, record: ShareCheckpoint) -> None:
    value = message.checkpoint
    value.checkpoint_epoch = record.checkpoint_epoch
    value.state_epoch = record.state_epoch
    value.leader_epoch = record.leader_epoch
    value.start_offset = record.start_offset
    value.delivery_complete_count = record.delivery_complete_count
    value.create_timestamp_ms = record.create_timestamp_ms
    value.write_timestamp_ms = record.write_timestamp_ms
    value.state_batches.extend(_batches_out(record.state_batches))


def _write_delta(message: pb.ShareStateRecord, record: ShareDelta) -> None:
    value = message.delta
    value.delta_index = record.delta_index
    value.checkpoint_epoch = record.checkpoint_epoch
    if record.leader_epoch != NOT_CHANGED:
        value.leader_epoch = record.leader_epoch
    if record.start_offset != NOT_CHANGED:
        value.start_offset = record.start_offset
    value.delivery_complete_count = record.delivery_complete_count
    value.state_batches.extend(_batches_out(record.state_batches))
    value.write_timestamp_ms = record.write_timestamp_ms


def _write_checkpoint_tombstone(message: pb.ShareStateRecord, record: CheckpointTombstone) -> None:
    message.checkpoint_tombstone.SetInParent()
    message.checkpoint_tombstone.write_timestamp_ms = record.write_timestamp_ms


def _write_delta_tombstone(message: pb.ShareStateRecord, record: DeltaTombstone) -> None:
    message.delta_tombstone.SetInParent()
    message.delta_tombstone.delta_index = record.delta_index
    message.delta_tombstone.write_timestamp_ms = record.write_timestamp_ms


def _read_checkpoint(key: SharePartitionKey, value: pb.ShareCheckpoint) -> ShareCheckpoint:
    return ShareCheckpoint(
        key,
        value.checkpoint_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.delivery_complete_count,
        value.create_timestamp_ms,
        value.write_timestamp_ms,
        _batches_in(value.state_batches),
    )


def _read_delta(key: SharePartitionKey, value: pb.ShareDelta) -> ShareDelta:
    return ShareDelta(
        key,
        value.delta_index,
        value.checkpoint_epoch,
        value.leader_epoch if value.HasField("leader_epoch") else NOT_CHANGED,
        value.start_offset if value.HasField("start_offset") else NOT_CHANGED,
        value.delivery_complete_count,
        _batches_in(value.state_batches),
        value.write_timestamp_ms,
    )


def _batches_out(batches: Iterable[StateBatch]) -> list[pb.ShareStateBatch]:
    return [
        pb.ShareStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def _batches_in(batches: Iterable[pb.ShareStateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )


_WRITERS: Final[Mapping[type, Callable[[pb.ShareStateRecord, Any], None]]] = {
    ShareCheckpoint: _write_checkpoint,
    ShareDelta: _write_delta,
    CheckpointTombstone: _write_checkpoint_tombstone,
    DeltaTombstone: _write_delta_tombstone,
}

_READERS: Final[Mapping[str, Callable[[SharePartitionKey, Any], ShareRecord]]] = {
    "checkpoint": _read_checkpoint,
    "delta": _read_delta,
    "checkpoint_tombstone": lambda key, value: CheckpointTombstone(key, value.write_timestamp_ms),
    "delta_tombstone": lambda key, value: DeltaTombstone(key, value.delta_index, value.write_timestamp_ms),
}
