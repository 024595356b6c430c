"""Reads offset ranges of logs as Arrow, without locks and without a group."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_spark.arrow import Columns, Frame, OnRejected, TaskDelivery
from sharebroker_spark.client import GatewayClient, log_spans, shared
from sharebroker_spark.core.offsets import Range
from sharebroker_spark.core.options import Options
from sharebroker_spark.staging import LeftOut

READ_BYTES: Final = 2 * 1024 * 1024
"""The bytes per request; up to twice as much is in memory."""
_REMOVED: Final = "no longer in the log: deleted by retention or by a user"
_log = logging.getLogger(__name__)


class DataLossError(RuntimeError):
    """Planned records that are no longer in the log."""


def frame_of(schema: StructType, options: Options) -> Frame:
    """Returns the builder of Arrow batches for a Spark schema. Raises OptionError."""
    return Frame(to_arrow_schema(schema, timezone="UTC"), options)


def read_task(
    options: Options, schema: StructType, ranges: Sequence[Range], delivery: TaskDelivery
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a task, and rejects those whose value cannot be decoded."""
    client = shared(options.bootstrap, waits=options.waits)
    frame, left_out, strict = (
        frame_of(schema, options),
        LeftOut(client, delivery.token),
        options.fails_on_data_loss,
    )
    for batch in read_ranges(client, ranges, frame, delivery, strict=strict, rejected=left_out.add):
        left_out.stage()
        yield batch


def read_ranges(
    client: GatewayClient,
    ranges: Sequence[Range],
    frame: Frame,
    delivery: TaskDelivery,
    *,
    strict: bool,
    rejected: OnRejected,
) -> Iterator[pa.RecordBatch]:
    """Yields the records of ranges as Arrow batches. Raises DataLossError, MalformedError, KafkaError.

    Missing records are an error if `strict`. `rejected` receives the offsets that are left out.
    """
    for offset_range in ranges:
        columns = Columns(frame, offset_range, delivery, rejected)
        contents = _content(client, offset_range, committed=delivery.deadline_ms is None, strict=strict)
        for offset, content in contents:
            yield from columns.of(content, offset)


def _content(
    client: GatewayClient, offset_range: Range, *, committed: bool, strict: bool
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


def _beyond_loss(client: GatewayClient, offset_range: Range, offset: int, *, strict: bool) -> int:
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
