"""Encodes records of share-partition state as control records of the partition's own log (decision 0117).

A checkpoint is a SHARE_CHECKPOINT, a delta a SHARE_DELTA: the group id, the checkpoint epoch, in a checkpoint
the start offset (SPSO) and the end offset (SPEO), and the runs. Values start with two bytes for the version
and use Kafka's flexible encoding. What the first design of KIP-932 does not have follows in tagged fields;
records without them are valid.

The SPEO is not part of the state: the records from it on were delivered at most once, and a leader finds them
in the log. A checkpoint has the end of its last run, or the start offset. The deletion of a state is a
checkpoint with the tag `_DELETED`; its deltas need no record of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from sharebroker_protocol.model import JournalUpdate, SharePartitionKey, StateBatch, StateNote
from sharebroker_server.kafka_wire.decoder import BadMessage, uvarint
from sharebroker_server.kafka_wire.encoder import put_uvarint
from sharebroker_server.record_log.core.share_control import SHARE_CHECKPOINT, SHARE_DELTA, ControlRecord
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from sharebroker_server.share_coordinator.store.codec import STORED_JOURNAL, STORED_NOTE

_VERSION: Final = 0
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_OFFSETS: Final = struct.Struct(">qq")
_RUN: Final = struct.Struct(">qqbhB")
"""Base offset, last offset, state and delivery count; the last byte: no tagged fields."""

_STATE_EPOCH: Final = 0
_LEADER_EPOCH: Final = 1
_DELIVERY_COMPLETE_COUNT: Final = 2
_CREATE_TIMESTAMP: Final = 3
_KEPT_SINCE: Final = 4
_NOTES: Final = 5
_FAILED: Final = 6
_DELETED: Final = 7
_START_OFFSET: Final = 8
_DELTA_INDEX: Final = 9

_UNCHANGED: Final = -1
_UNKNOWN_COUNT: Final = -1

_Tags = dict[int, bytes]


class RecordedState(NamedTuple):
    """A decoded record of a group. `end_offset` is the SPEO of a checkpoint, else -1."""

    record: ShareRecord
    end_offset: int = -1


def encode(record: ShareRecord) -> ControlRecord:
    """Returns the control record of a checkpoint, a delta or a deletion.

    Raises:
        ValueError: the tombstone of a delta, which has no control record.
    """
    if isinstance(record, DeltaTombstone):
        raise ValueError(f"{record!r} has no control record")
    if isinstance(record, ShareDelta):
        return ControlRecord(SHARE_DELTA, record.write_timestamp_ms, _delta(record))
    if isinstance(record, CheckpointTombstone):
        value = _checkpoint(record.key.group_id, 0, -1, (), {_DELETED: b""})
        return ControlRecord(SHARE_CHECKPOINT, record.write_timestamp_ms, value)
    value = _checkpoint(
        record.key.group_id,
        record.checkpoint_epoch,
        record.start_offset,
        record.state_batches,
        _checkpoint_tags(record),
    )
    return ControlRecord(SHARE_CHECKPOINT, record.write_timestamp_ms, value)


def decode(control: ControlRecord, topic_id: str, partition: int) -> RecordedState:
    """Returns the record of a partition's control record.

    Raises:
        ValueError: it is damaged, or of a later version.
    """
    try:
        reader = _Reader(control.value)
        version = reader.number(_INT16)
        if version != _VERSION:
            raise ValueError(f"a control record of share state of version {version}")
        key = SharePartitionKey(reader.text(), topic_id, partition)
        epoch = reader.number(_INT32)
        if control.type == SHARE_DELTA:
            return RecordedState(_read_delta(reader, control, key, epoch))
        start_offset, end_offset = reader.take(_OFFSETS)
        record = _read_checkpoint(reader, control, key, epoch, start_offset)
    except (BadMessage, DecodeError, IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise ValueError(f"not a control record of share state: {error}") from error
    return RecordedState(record, end_offset)


# Writing


def _delta(record: ShareDelta) -> bytes:
    out = _head(record.key.group_id, record.checkpoint_epoch)
    tags = {
        _LEADER_EPOCH: _optional(_INT32, record.leader_epoch, _UNCHANGED),
        _START_OFFSET: _optional(_INT64, record.start_offset, _UNCHANGED),
        _DELIVERY_COMPLETE_COUNT: _optional(_INT32, record.delivery_complete_count, _UNKNOWN_COUNT),
        _DELTA_INDEX: _optional(_INT32, record.delta_index, 0),
    }
    _put_runs(out, record.state_batches)
    _put_tags(out, tags | _additions(record.state_batches, record.failed))
    return bytes(out)


def _checkpoint(
    group_id: str,
    epoch: int,
    start_offset: int,
    batches: Sequence[StateBatch],
    tags: Mapping[int, bytes | None],
) -> bytes:
    out = _head(group_id, epoch)
    out += _OFFSETS.pack(start_offset, end_of(start_offset, batches))
    _put_runs(out, batches)
    _put_tags(out, tags)
    return bytes(out)


def end_of(start_offset: int, batches: Sequence[StateBatch]) -> int:
    """Returns the SPEO that a checkpoint with this start offset and these runs has."""
    return max(start_offset, batches[-1].last + 1) if batches else start_offset


def _checkpoint_tags(record: ShareCheckpoint) -> dict[int, bytes | None]:
    tags = {
        _STATE_EPOCH: _optional(_INT32, record.state_epoch, 0),
        _LEADER_EPOCH: _optional(_INT32, record.leader_epoch, 0),
        _DELIVERY_COMPLETE_COUNT: _optional(_INT32, record.delivery_complete_count, _UNKNOWN_COUNT),
        _CREATE_TIMESTAMP: _optional(_INT64, record.create_timestamp_ms, record.write_timestamp_ms),
        _KEPT_SINCE: _optional(_INT32, record.kept_since, 0),
    }
    return tags | _additions(record.state_batches, record.failed)


def _additions(batches: Sequence[StateBatch], failed: JournalUpdate | None) -> dict[int, bytes | None]:
    """Returns the tagged notes of the runs, each with the index of its run, and the journal."""
    notes = bytearray()
    for index, batch in enumerate(batches):
        if batch.note is not None:
            put_uvarint(notes, index)
            _put_bytes(notes, STORED_NOTE.message(batch.note).SerializeToString())
    return {
        _NOTES: bytes(notes) or None,
        _FAILED: None if failed is None else STORED_JOURNAL.message(failed).SerializeToString(),
    }


def _head(group_id: str, epoch: int) -> bytearray:
    out = bytearray(_INT16.pack(_VERSION))
    _put_bytes(out, group_id.encode())
    out += _INT32.pack(epoch)
    return out


def _put_runs(out: bytearray, batches: Iterable[StateBatch]) -> None:
    packed = [_RUN.pack(first, last, state, count, 0) for first, last, state, count, _ in batches]
    put_uvarint(out, len(packed) + 1)
    out += b"".join(packed)


def _put_tags(out: bytearray, tags: Mapping[int, bytes | None]) -> None:
    present = sorted((tag, content) for tag, content in tags.items() if content is not None)
    put_uvarint(out, len(present))
    for tag, content in present:
        put_uvarint(out, tag)
        put_uvarint(out, len(content))
        out += content


def _put_bytes(out: bytearray, content: bytes) -> None:
    """Appends bytes with their length (compact: plus one)."""
    put_uvarint(out, len(content) + 1)
    out += content


def _optional(form: struct.Struct, value: int, default: int) -> bytes | None:
    return None if value == default else form.pack(value)


# Reading


def _read_delta(reader: _Reader, control: ControlRecord, key: SharePartitionKey, epoch: int) -> ShareDelta:
    batches, tags = reader.runs(), reader.tags()
    return ShareDelta(
        key,
        _number(tags, _DELTA_INDEX, _INT32, 0),
        epoch,
        _number(tags, _LEADER_EPOCH, _INT32, _UNCHANGED),
        _number(tags, _START_OFFSET, _INT64, _UNCHANGED),
        _number(tags, _DELIVERY_COMPLETE_COUNT, _INT32, _UNKNOWN_COUNT),
        _with_notes(batches, tags),
        control.timestamp_ms,
        _journal(tags),
    )


def _read_checkpoint(
    reader: _Reader, control: ControlRecord, key: SharePartitionKey, epoch: int, start_offset: int
) -> ShareCheckpoint | CheckpointTombstone:
    batches, tags = reader.runs(), reader.tags()
    if _DELETED in tags:
        return CheckpointTombstone(key, control.timestamp_ms)
    return ShareCheckpoint(
        key,
        epoch,
        _number(tags, _STATE_EPOCH, _INT32, 0),
        _number(tags, _LEADER_EPOCH, _INT32, 0),
        start_offset,
        _number(tags, _DELIVERY_COMPLETE_COUNT, _INT32, _UNKNOWN_COUNT),
        _number(tags, _CREATE_TIMESTAMP, _INT64, control.timestamp_ms),
        control.timestamp_ms,
        _with_notes(batches, tags),
        _journal(tags),
        _number(tags, _KEPT_SINCE, _INT32, 0),
    )


def _with_notes(batches: list[StateBatch], tags: _Tags) -> tuple[StateBatch, ...]:
    content = tags.get(_NOTES)
    if content is None:
        return tuple(batches)
    reader = _Reader(content)
    while not reader.ended:
        index = reader.uvarint()
        note: StateNote = STORED_NOTE.value(STORED_NOTE.message_type.FromString(reader.bytes()))
        batches[index] = batches[index]._replace(note=note)
    return tuple(batches)


def _journal(tags: _Tags) -> JournalUpdate | None:
    content = tags.get(_FAILED)
    return None if content is None else STORED_JOURNAL.value(STORED_JOURNAL.message_type.FromString(content))


def _number(tags: _Tags, tag: int, form: struct.Struct, default: int) -> int:
    content = tags.get(tag)
    return default if content is None else int(form.unpack(content)[0])


class _Reader:
    """Reads a value from its start."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at == len(self._data)

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        found = form.unpack_from(self._data, self._at)
        self._at += form.size
        return found

    def number(self, form: struct.Struct) -> int:
        return int(self.take(form)[0])

    def uvarint(self) -> int:
        value, self._at = uvarint(self._data, self._at)
        return value

    def slice(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise BadMessage("The value ends too early.")
        return self._data[start : self._at]

    def bytes(self) -> bytes:
        size = self.uvarint() - 1
        if size < 0:
            raise BadMessage("A field is null.")
        return self.slice(size)

    def text(self) -> str:
        return self.bytes().decode()

    def runs(self) -> list[StateBatch]:
        count = self.uvarint() - 1
        content = self.slice(max(count, 0) * _RUN.size)
        rows = list(_RUN.iter_unpack(content))
        if count < 0 or any(tags for *_, tags in rows):
            raise BadMessage("The runs are null, or have tagged fields.")
        return [StateBatch(*row[:4]) for row in rows]

    def tags(self) -> _Tags:
        found: _Tags = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = self.slice(self.uvarint())
        if not self.ended:
            raise BadMessage("Bytes follow the value.")
        return found
