"""Converts records of share state to control records with their place in the index, and back."""

from __future__ import annotations

from typing import Final

from sharebroker_server.record_log.core.share_control import ControlRecord
from sharebroker_server.record_log.core.share_index import CHECKPOINT_SLOT, IndexedRecord
from sharebroker_server.share_coordinator.core.state import CheckpointTombstone, ShareDelta, ShareRecord
from sharebroker_server.share_coordinator.store.control_format import decode, encode

MOST_DELTAS: Final = 64
"""The most deltas of a group after its checkpoint. Each has an entry in the index, in memory and in Redis."""


class ControlPayload(bytes):
    """The value of a control record, as the coordinator runtime takes it, with the rest of `record`."""

    record: IndexedRecord

    @classmethod
    def of(cls, record: IndexedRecord) -> ControlPayload:
        """Returns the payload of a record that is to be appended."""
        payload = cls(record.control.value)
        payload.record = record
        return payload

    @classmethod
    def of_stored(cls, control: ControlRecord) -> ControlPayload:
        """Returns the payload of a stored record, whose place is of no interest."""
        return cls.of(IndexedRecord(control, "", CHECKPOINT_SLOT))


class ControlRecordCodec:
    """The codec of one partition."""

    def __init__(self, topic_id: str, partition: int) -> None:
        self._topic_id = topic_id
        self._partition = partition

    def encode(self, record: ShareRecord) -> ControlPayload:
        """Returns the control record of a record. Raises ValueError for the tombstone of a delta."""
        slot = record.delta_index % MOST_DELTAS if isinstance(record, ShareDelta) else CHECKPOINT_SLOT
        deleted = isinstance(record, CheckpointTombstone)
        return ControlPayload.of(IndexedRecord(encode(record), record.key.group_id, slot, deleted))

    def decode(self, payload: bytes) -> ShareRecord:
        """Returns the record of a control record. Raises ValueError."""
        assert isinstance(payload, ControlPayload)
        return decode(payload.record.control, self._topic_id, self._partition).record
