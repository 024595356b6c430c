"""Encodes records of share-partition state as log entries (sharebroker/storage/v1/share_state.proto).

A checkpoint with many batches is decoded by columns, not by batches, which takes half the time. Its bytes are
still those of a message per batch, with zeros that are usually left out, so older versions decode it as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

from google.protobuf.message import DecodeError

from sharebroker_protocol.model import (
    FailedRecords,
    FailureNote,
    JournalUpdate,
    SharePartitionKey,
    StateBatch,
    StateNote,
)
from sharebroker_protocol.storage.v1 import share_state_pb2 as pb
from sharebroker_server.persister.messages import BATCH_FIELDS, FAILED_FIELDS
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)

NOT_CHANGED: Final = -1
"""An unchanged leader epoch or start offset in a delta. It is not written, which saves ten bytes each."""

_FAILURE: Final = Conversion(FailureNote, pb.FailureNote)
_NOTE_FIELDS: Final[dict[str, str | Mapped]] = {"failure": Mapped(nested=_FAILURE)}
STORED_NOTE: Final = Conversion(StateNote, pb.ShareStateNote, _NOTE_FIELDS)
_BATCH_FIELDS: Final = BATCH_FIELDS | {"note": Mapped(nested=STORED_NOTE)}

_KEY_CACHE_SIZE: Final = 65_536

COLUMNS_FROM: Final = 64
"""A checkpoint with at least this many batches is encoded for columns."""

_COLUMNS_BYTES: Final = 10 * COLUMNS_FROM
"""A checkpoint with columns has at least this many bytes: two per batch, and two for each of its fields."""

CHUNK: Final = 512
"""Batches that are encoded together. A chunk that is equal in the next checkpoint is not encoded again."""

_CACHED_CHUNKS: Final = 64

_new: Final[Any] = tuple.__new__
"""Creates a named tuple of a sequence in half the time of its `_make`."""

_KEY: Final = Conversion(SharePartitionKey, pb.SharePartitionKey)
STORED_JOURNAL: Final = Conversion(
    JournalUpdate,
    pb.JournalUpdate,
    {"records": Mapped(nested=Conversion(FailedRecords, pb.FailedRecords, FAILED_FIELDS))},
)
_FAILED: Final[dict[str, str | Mapped]] = {"failed": Mapped(nested=STORED_JOURNAL)}
_BATCHES: Final[dict[str, str | Mapped]] = _FAILED | {
    "state_batches": Mapped(nested=Conversion(StateBatch, pb.ShareStateBatch, _BATCH_FIELDS))
}
_CHECKPOINT: Final = Conversion(ShareCheckpoint, pb.ShareCheckpoint, _BATCHES)
_COLUMNS: Final = Conversion(ShareCheckpoint, pb.StateColumns.Checkpoint, _FAILED)
_CONVERSIONS: Final[dict[str, tuple[type, Conversion[Any, Any]]]] = {
    "checkpoint": (ShareCheckpoint, _CHECKPOINT),
    "delta": (ShareDelta, Conversion(ShareDelta, pb.ShareDelta, _BATCHES, absent=NOT_CHANGED)),
    "checkpoint_tombstone": (
        CheckpointTombstone,
        Conversion(CheckpointTombstone, pb.ShareCheckpointTombstone),
    ),
    "delta_tombstone": (DeltaTombstone, Conversion(DeltaTombstone, pb.ShareDeltaTombstone)),
}
_WITH_ZEROS: Final = Conversion(
    StateBatch,
    pb.StateWithZeros.Batch,
    BATCH_FIELDS | {"note": Mapped(nested=Conversion(StateNote, pb.StateWithZeros.Note, _NOTE_FIELDS))},
)
_ENCODERS: Final = {record: (kind, conversion.fill) for kind, (record, conversion) in _CONVERSIONS.items()}
"""By type of record: its kind, and the function that sets the fields of its message."""


class ShareRecordCodec:
    """Encodes with protocol buffers; each record names its kind."""

    def encode(self, record: ShareRecord) -> bytes:
        """Returns the payload of a record."""
        if isinstance(record, ShareCheckpoint) and len(record.state_batches) >= COLUMNS_FROM:
            return _key(record.key) + _for_columns(record)
        kind, fill = _ENCODERS[type(record)]
        message = pb.ShareStateRecord()
        fill(getattr(message, kind), record)
        return _key(record.key) + message.SerializeToString()

    def decode(self, payload: bytes) -> ShareRecord:
        """Returns the record of a payload; raises ValueError if it is invalid or of an unknown kind."""
        try:
            if len(payload) >= _COLUMNS_BYTES:
                columns = pb.StateColumns.FromString(payload)
                if columns.checkpoint.columns:
                    return _from_columns(columns, payload)
            message = pb.ShareStateRecord.FromString(payload)
        except DecodeError as error:
            raise ValueError(f"not a share state record: {error}") from error
        kind = message.WhichOneof("value")
        if kind is None:
            raise ValueError("a share state record of a kind that this version does not support")
        key = _KEY.value(message.key)
        record: ShareRecord = _CONVERSIONS[kind][1].value(getattr(message, kind), key=key)
        return record


@lru_cache(_KEY_CACHE_SIZE)
def _key(key: SharePartitionKey) -> bytes:
    """Returns the encoded key field.

    Concatenated encodings of single fields are the encoding of a message with all of them, so the key's bytes
    can be cached.
    """
    return pb.ShareStateRecord(key=_KEY.message(key)).SerializeToString()


def _for_columns(record: ShareCheckpoint) -> bytes:
    """Returns the encoded checkpoint in parts, which parsers merge."""
    batches = record.state_batches
    noted = [index for index, batch in enumerate(batches) if batch.note is not None]
    rest = _CHECKPOINT.fields(record._replace(state_batches=()))
    head = pb.ShareStateRecord(checkpoint=pb.ShareCheckpoint(**rest, columns=True, noted=noted))
    chunks = [_chunk(batches[index : index + CHUNK]) for index in range(0, len(batches), CHUNK)]
    return b"".join((head.SerializeToString(), *chunks))


@lru_cache(_CACHED_CHUNKS)
def _chunk(batches: tuple[StateBatch, ...]) -> bytes:
    messages: list[Any] = [_WITH_ZEROS.fields(batch) for batch in batches]
    checkpoint = pb.StateWithZeros.Checkpoint(state_batches=messages)
    return pb.StateWithZeros(checkpoint=checkpoint).SerializeToString()


def _from_columns(stored: pb.StateColumns, payload: bytes) -> ShareCheckpoint:
    """Returns an encoded checkpoint; raises ValueError if its columns differ in length."""
    columns, noted = stored.checkpoint.batches, stored.checkpoint.noted
    notes: list[StateNote | None] = [None] * len(columns.first_offset)
    times, fields = columns.note.not_before_ms, (columns.note.holder, columns.note.lock_token)
    rows = zip(times, *fields, repeat(None, len(times)), strict=True)
    try:
        for index, note in zip(noted, map(_new, repeat(StateNote), rows), strict=True):
            notes[index] = note
        if 0 in times:
            _add_failures(notes, noted, payload)
        batches = zip(
            *(
                columns.first_offset,
                columns.last_offset,
                columns.delivery_state,
                columns.delivery_count,
                notes,
            ),
            strict=True,
        )
        state_batches = tuple(map(_new, repeat(StateBatch), batches))
    except (IndexError, ValueError) as error:
        raise ValueError(f"a share state record with columns of different lengths: {error}") from error
    key = _KEY.value(stored.key)
    return _COLUMNS.value(stored.checkpoint, key=key, state_batches=state_batches)


def _add_failures(notes: list[StateNote | None], noted: Sequence[int], payload: bytes) -> None:
    """Adds the failures to the notes, which the columns do not have."""
    stored = pb.ShareStateRecord.FromString(payload).checkpoint.state_batches
    for index in noted:
        if stored[index].note.HasField("failure"):
            notes[index] = StateNote(failure=_FAILURE.value(stored[index].note.failure))
