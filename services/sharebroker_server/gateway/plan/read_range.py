"""ReadRange: reads record batches by offset, without a group."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_server.gateway.config import MAX_READ_RANGE_BYTES, READ_RANGE_BYTES
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.read_committed import committed_batches, headers_of
from sharebroker_server.gateway.core.validation import check_bounds, refused
from sharebroker_server.gateway.log_fetch import LogFetchLimits, Part, Result, fetch_log


async def read_range(gateway: Gateway, request: pb.ReadRangeRequest) -> pb.ReadRangeResponse:
    """The record batches of a range from its first offset on. Raises KafkaError, also OFFSET_OUT_OF_RANGE."""
    span = request.range
    topic = gateway.topic(span.topic, "range.topic")
    check_bounds("range.partition", span.partition, 0, topic.partitions - 1)
    check_bounds("max_bytes", request.max_bytes, 0, MAX_READ_RANGE_BYTES)
    if not 0 <= span.first_offset <= span.last_offset:
        raise refused("range", f"Offsets {span.first_offset} to {span.last_offset} are not a valid range.")
    size = request.max_bytes or READ_RANGE_BYTES
    part = Part(
        topic_id=topic.topic_id,
        partition=span.partition,
        fetch_offset=span.first_offset,
        partition_max_bytes=size,
    )
    limits = LogFetchLimits(max_bytes=size, committed=request.committed)
    (result,) = await fetch_log(gateway, [part], limits)
    if result.error_code:
        raise KafkaError(ErrorCode(result.error_code), result.error_message)
    *_, end = (span.first_offset, *(header.last_offset + 1 for header, _ in headers_of(result.records)))
    records = _committed(result) if request.committed else result.records
    return pb.ReadRangeResponse(record_batches=records, next_offset=end)


def _committed(result: Result) -> bytes:
    return committed_batches(
        result.records,
        [(aborted.producer_id, aborted.first_offset) for aborted in result.aborted_transactions],
    )
