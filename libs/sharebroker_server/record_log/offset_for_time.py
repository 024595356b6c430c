"""Finds records by timestamp."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_server.record_log.core.batch import StoredBatch, header_of

_READ_BYTES: Final = 1 << 20


class TimedOffset(NamedTuple):
    """A record's offset and timestamp (ms)."""

    offset: int
    timestamp: int


class Log(Protocol):
    """A readable log (PartitionLog)."""

    @property
    def log_start_offset(self) -> int:
        """The first readable offset."""

    async def read(self, offset: int, max_bytes: int) -> list[StoredBatch]:
        """Returns whole batches from the one that contains the offset; raises KafkaError."""


async def first_since(log: Log, start: int, timestamp: int) -> TimedOffset | None:
    """Returns the first record from offset `start` on with `timestamp` (ms) or later; raises KafkaError."""
    offset = start
    while batches := await log.read(max(offset, log.log_start_offset), _READ_BYTES):
        for batch in batches:
            if batch.max_timestamp >= timestamp and not batch.control:
                found = _first_in(batch, max(offset, log.log_start_offset), timestamp)
                if found is not None:
                    return found
        offset = batches[-1].last_offset + 1
    return None


def _first_in(batch: StoredBatch, start: int, timestamp: int) -> TimedOffset | None:
    """Returns the first record from `start` on with `timestamp` or later, in a batch that contains one.

    Returns the batch's first record if its records cannot be read: an earlier offset loses nothing.
    """
    header = header_of(batch.data)
    first = max(batch.base_offset, start)
    if header.log_append_time:
        return TimedOffset(first, batch.max_timestamp)
    if header.base_timestamp >= timestamp and first == batch.base_offset:
        return TimedOffset(first, header.base_timestamp)
    try:
        found = (record for record in DefaultRecordBatch(batch.data) if record.timestamp >= timestamp)
        return next((TimedOffset(r.offset, r.timestamp) for r in found if r.offset >= first), None)
    except Exception:  # each codec has its own errors, and a producer may have compressed anything
        return TimedOffset(first, header.base_timestamp)
