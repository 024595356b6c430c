"""Records by their time: the one place on the server that looks inside a batch."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_server.record_log.core.batch import StoredBatch, header_of

_READ_BYTES: Final = 1 << 20


class TimedOffset(NamedTuple):
    """A record, and its time in ms."""

    offset: int
    timestamp: int


class Log(Protocol):
    """What can be read (PartitionLog)."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""

    async def read(self, offset: int, max_bytes: int) -> list[StoredBatch]:
        """Whole batches from the one that contains the offset. Raises KafkaError."""


async def first_since(log: Log, start: int, timestamp: int) -> TimedOffset | None:
    """The first record from offset `start` on that is not older than `timestamp` (ms). Raises KafkaError."""
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
    """The first record from `start` on at or after `timestamp` in a batch whose newest record is.

    The batch's first one when its records cannot be read: an earlier answer loses nothing.
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
    except Exception:  # every codec has errors of its own, and a producer may have compressed anything
        return TimedOffset(first, header.base_timestamp)
