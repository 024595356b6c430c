"""ReadRange: records by offset, as record batches, without any group."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_server.gateway.config import MAX_READ_RANGE_BYTES, READ_RANGE_BYTES
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.read_committed import headers_of, shown
from sharebroker_server.gateway.core.validation import check_bounds, refused
from sharebroker_server.gateway.log_fetch import Answer, LogFetchLimits, Part, fetch_log


async def read_range(gateway: Gateway, request: pb.ReadRangeRequest) -> pb.ReadRangeResponse:
    """What there is of a range from its first offset on. Raises KafkaError, OFFSET_OUT_OF_RANGE too."""
    asked = request.range
    topic = gateway.topic(asked.topic, "range.topic")
    check_bounds("range.partition", asked.partition, 0, topic.partitions - 1)
    check_bounds("max_bytes", request.max_bytes, 0, MAX_READ_RANGE_BYTES)
    if not 0 <= asked.first_offset <= asked.last_offset:
        raise refused("range", f"Offsets {asked.first_offset} to {asked.last_offset} cannot be.")
    size = request.max_bytes or READ_RANGE_BYTES
    part = Part(
        topic_id=topic.topic_id,
        partition=asked.partition,
        fetch_offset=asked.first_offset,
        partition_max_bytes=size,
    )
    limits = LogFetchLimits(max_bytes=size, committed=request.committed)
    (answer,) = await fetch_log(gateway, [part], limits)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
    *_, end = (asked.first_offset, *(header.last_offset + 1 for header, _ in headers_of(answer.records)))
    records = _committed(answer) if request.committed else answer.records
    return pb.ReadRangeResponse(record_batches=records, next_offset=end)


def _committed(answer: Answer) -> bytes:
    return shown(answer.records, [(one.producer_id, one.first_offset) for one in answer.aborted_transactions])
