"""Where in a batch a timestamp falls: the one place on the server that looks inside."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatch

from libs.record_log.core.batch import StoredBatch, header_of


def first_offset_since(batch: StoredBatch, timestamp: int) -> int:
    """Offset of the first record at or after `timestamp` (ms) in a batch whose newest record is.

    The batch's base offset when its records cannot be read: an earlier answer loses nothing.
    """
    header = header_of(batch.data)
    if header.log_append_time or header.base_timestamp >= timestamp:
        return batch.base_offset
    try:
        return next(
            (record.offset for record in DefaultRecordBatch(batch.data) if record.timestamp >= timestamp),
            batch.base_offset,
        )
    except Exception:  # every codec has errors of its own, and a producer may have compressed anything
        return batch.base_offset
