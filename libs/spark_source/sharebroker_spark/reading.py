"""Reading ranges of logs as Arrow: no lock, no group, as often as Spark likes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.gateway.v1 import plan_pb2 as pb
from sharebroker_spark.arrow import Columns, Delivery, Frame, Rejected
from sharebroker_spark.client import Client
from sharebroker_spark.core.offsets import Range
from sharebroker_spark.positions import log_spans

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
        for content in _content(client, one, committed=delivery.deadline_ms is None, strict=reading.strict):
            yield from columns.add(content)
        yield from columns.rest()


def _content(client: Client, one: Range, *, committed: bool, strict: bool) -> Iterator[bytes]:
    offset = one.first
    while offset <= one.last:
        asked = pb.PlanRange(
            topic=one.topic, partition=one.partition, first_offset=offset, last_offset=one.last
        )
        request = pb.ReadRangeRequest(range=asked, committed=committed)
        try:
            answer = client.call(client.plans.ReadRange, request)
        except KafkaError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            offset = _beyond_loss(client, one, offset, strict=strict)
            continue
        if answer.next_offset == offset:
            _lost(one, offset, one.last, strict=strict)
            return
        yield answer.record_batches
        offset = answer.next_offset


def _beyond_loss(client: Client, one: Range, offset: int, *, strict: bool) -> int:
    """Where there is more to read; behind the range: nowhere. Raises DataLossError."""
    start, _ = log_spans(client, [one.topic])[one.topic, one.partition]
    beyond = start if offset < start <= one.last else one.last + 1
    _lost(one, offset, beyond - 1, strict=strict)
    return beyond


def _lost(one: Range, first: int, last: int, *, strict: bool) -> None:
    text = (
        f"Offsets {first} to {last} of {one.topic}-{one.partition} are no longer in the log: retention "
        "removed them, or they were deleted. With failOnDataLoss=false the query goes on without them."
    )
    if strict:
        raise DataLossError(text)
    _log.warning(text)
