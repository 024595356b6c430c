"""Reading ranges of logs as Arrow: no lock, no group, as often as Spark likes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_spark.arrow import Columns, Delivery, Frame, Rejected
from sharebroker_spark.client import Client
from sharebroker_spark.core.offsets import Range
from sharebroker_spark.positions import log_spans

READ_BYTES: Final = 2 * 1024 * 1024
"""So much is asked for at a time; twice that lies in memory."""
_REMOVED: Final = "no longer in the log: retention removed them, or they were deleted"
_log = logging.getLogger(__name__)


class DataLossError(RuntimeError):
    """Records that were planned are no longer in the log."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What becomes of records that are gone (`strict`: fail), and who is told of those that are left out."""

    strict: bool
    rejected: Rejected


def read_ranges(
    client: Client, ranges: Sequence[Range], frame: Frame, delivery: Delivery, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """The records of ranges in Arrow batches. Raises DataLossError, MalformedError, KafkaError."""
    for one in ranges:
        columns = Columns(frame, one, delivery, reading.rejected)
        contents = _content(client, one, committed=delivery.deadline_ms is None, strict=reading.strict)
        for offset, content in contents:
            yield from columns.of(content, offset)


def _content(client: Client, one: Range, *, committed: bool, strict: bool) -> Iterator[tuple[int, bytes]]:
    """Whole record batches, and the offset from which on they were asked for: the first may begin before."""
    offset, coming = one.first, None
    while offset <= one.last:
        coming = coming or client.ahead(client.plans.ReadRange, _request(one, offset, committed))
        try:
            answer = coming()
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            offset, coming = _beyond_loss(client, one, offset, strict=strict), None
            continue
        if answer.next_offset == offset:
            _lost(one, offset, one.last, "not in the log: it ends before", strict=strict)
            return
        asked, offset, coming = offset, answer.next_offset, None
        if offset <= one.last:  # is on its way while this is decoded
            coming = client.ahead(client.plans.ReadRange, _request(one, offset, committed))
        yield asked, answer.record_batches


def _request(one: Range, offset: int, committed: bool) -> pb.ReadRangeRequest:
    asked = pb.PlanRange(topic=one.topic, partition=one.partition, first_offset=offset, last_offset=one.last)
    return pb.ReadRangeRequest(range=asked, committed=committed, max_bytes=READ_BYTES)


def _beyond_loss(client: Client, one: Range, offset: int, *, strict: bool) -> int:
    """Where there is more to read; behind the range: nowhere. Raises DataLossError."""
    start, _ = log_spans(client, [one.topic])[one.topic, one.partition]
    beyond = start if offset < start <= one.last else one.last + 1
    _lost(one, offset, beyond - 1, _REMOVED, strict=strict)
    return beyond


def _lost(one: Range, first: int, last: int, why: str, *, strict: bool) -> None:
    text = (
        f"Offsets {first} to {last} of {one.topic}-{one.partition} ({last - first + 1}) are {why}. "
        "With failOnDataLoss=false "
        "the query goes on without them."
    )
    if strict:
        raise DataLossError(text)
    _log.warning(text)
