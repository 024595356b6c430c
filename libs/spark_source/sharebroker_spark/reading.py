"""Reads offset ranges of logs as Arrow, without locks and without a group."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_spark.arrow import Columns, Delivery, Frame, OnRejected
from sharebroker_spark.client import Client, log_spans
from sharebroker_spark.core.offsets import Range

READ_BYTES: Final = 2 * 1024 * 1024
"""The bytes per request; up to twice as much is in memory."""
_REMOVED: Final = "no longer in the log: deleted by retention or by a user"
_log = logging.getLogger(__name__)


class DataLossError(RuntimeError):
    """Planned records that are no longer in the log."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Whether missing records are an error (`strict`), and the callback for records that are left out."""

    strict: bool
    rejected: OnRejected


def read_ranges(
    client: Client, ranges: Sequence[Range], frame: Frame, delivery: Delivery, reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Yields the records of ranges as Arrow batches. Raises DataLossError, MalformedError, KafkaError."""
    for offset_range in ranges:
        columns = Columns(frame, offset_range, delivery, reading.rejected)
        contents = _content(
            client, offset_range, committed=delivery.deadline_ms is None, strict=reading.strict
        )
        for offset, content in contents:
            yield from columns.of(content, offset)


def _content(
    client: Client, offset_range: Range, *, committed: bool, strict: bool
) -> Iterator[tuple[int, bytes]]:
    """Yields whole record batches with their requested offset; the first batch may start before it."""
    offset, pending = offset_range.first, None
    while offset <= offset_range.last:
        pending = pending or client.start_call(
            client.plans.ReadRange, _request(offset_range, offset, committed)
        )
        try:
            response = pending()
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            offset, pending = _beyond_loss(client, offset_range, offset, strict=strict), None
            continue
        if response.next_offset == offset:
            _lost(offset_range, offset, offset_range.last, "beyond the end of the log", strict=strict)
            return
        requested, offset, pending = offset, response.next_offset, None
        if offset <= offset_range.last:  # fetch the next part while this one is decoded
            pending = client.start_call(client.plans.ReadRange, _request(offset_range, offset, committed))
        yield requested, response.record_batches


def _request(offset_range: Range, offset: int, committed: bool) -> pb.ReadRangeRequest:
    requested = pb.PlanRange(
        topic=offset_range.topic,
        partition=offset_range.partition,
        first_offset=offset,
        last_offset=offset_range.last,
    )
    return pb.ReadRangeRequest(range=requested, committed=committed, max_bytes=READ_BYTES)


def _beyond_loss(client: Client, offset_range: Range, offset: int, *, strict: bool) -> int:
    """Returns the next readable offset, or one beyond the range. Raises DataLossError."""
    start, _ = log_spans(client, [offset_range.topic])[offset_range.topic, offset_range.partition]
    beyond = start if offset < start <= offset_range.last else offset_range.last + 1
    _lost(offset_range, offset, beyond - 1, _REMOVED, strict=strict)
    return beyond


def _lost(offset_range: Range, first: int, last: int, reason: str, *, strict: bool) -> None:
    text = (
        f"Offsets {first} to {last} of {offset_range.topic}-{offset_range.partition} "
        f"({last - first + 1}) are {reason}. "
        "With failOnDataLoss=false "
        "the query continues without them."
    )
    if strict:
        raise DataLossError(text)
    _log.warning(text)
