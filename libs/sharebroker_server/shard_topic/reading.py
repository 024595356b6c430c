"""Reads a shard's log as a partition: by offset, by time, with long polls.

The offset of a record is its position minus one, so that a log starts at 0. Offsets never change; trimming
moves the log start offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.shard_topic.batches import KafkaRecord, record_batch
from sharebroker_server.stream_log.port import LogUnavailable

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3

_MOST_BYTES: Final = 1024 * 1024
_MOST_WAIT: Final = 30.0
_PAGE: Final = 200
_MOST_SCANNED: Final = 5_000
"""The limit of offsets that one response covers, including gaps."""

_NONE: Final = pb.FindShareGroupStateOffsetResponse(offset=-1, timestamp=-1)

R = TypeVar("R")
Host = ShardHost[Any, R, Any]
Shard = ShardRuntime[Any, R, Any]
Format = Callable[[R], KafkaRecord | None]
"""Returns a record of the shard as a Kafka record; None if the topic does not show it."""


async def fetch(
    host: Host[R], to_kafka: Format[R], request: pb.FetchShareGroupStateRequest
) -> pb.FetchShareGroupStateResponse:
    """Returns record batches from an offset on.

    Raises OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION (no such shard), the errors of `to_kafka`, and
    NOT_COORDINATOR and similar errors if the shard does not accept commands.
    """
    shard = _shard(host, request.shard)
    offset, end = request.fetch_offset, shard.end()
    if offset == end:
        await shard.wait_for_append(end, min(request.max_wait_ms / 1000, _MOST_WAIT))
        end = shard.end()
    start = await _start(shard, end)
    if not start <= offset <= end:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} is outside of the log, which ranges from {start} to {end}.",
            metadata={"log_start_offset": str(start), "high_watermark": str(end)},
        )
    return pb.FetchShareGroupStateResponse(
        record_batches=await _batch(shard, to_kafka, offset, end, min(request.max_bytes, _MOST_BYTES)),
        log_start_offset=start,
        high_watermark=end,
    )


async def find_offset(
    host: Host[R], to_kafka: Format[R], request: pb.FindShareGroupStateOffsetRequest
) -> pb.FindShareGroupStateOffsetResponse:
    """Returns an offset by time. Raises INVALID_REQUEST for an invalid timestamp, and as `fetch` does."""
    shard, timestamp = _shard(host, request.shard), request.timestamp
    end = shard.end()
    if timestamp == LATEST:
        return pb.FindShareGroupStateOffsetResponse(offset=end, timestamp=-1)
    if timestamp == EARLIEST:
        return pb.FindShareGroupStateOffsetResponse(offset=await _start(shard, end), timestamp=-1)
    if timestamp < NEWEST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Timestamp {timestamp} is invalid.")
    return await _by_time(shard, to_kafka, end, timestamp)


def _shard(host: Host[R], index: int) -> Shard[R]:
    if not 0 <= index < (host.shards or 1):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no shard {index}.")
    return host.shard(index)


async def _by_time(
    shard: Shard[R], to_kafka: Format[R], end: int, timestamp: int
) -> pb.FindShareGroupStateOffsetResponse:
    """Returns the first record at or after `timestamp`, or the newest of all for NEWEST."""
    newest, position = _NONE, 0
    while page := await _page(shard, position, end):
        for position, stored in page:
            record = to_kafka(stored)
            if record is None:
                continue
            found = pb.FindShareGroupStateOffsetResponse(offset=position - 1, timestamp=record.timestamp_ms)
            if timestamp != NEWEST and found.timestamp >= timestamp:
                return found
            if found.timestamp > newest.timestamp:
                newest = found
    return newest if timestamp == NEWEST else _NONE


async def _start(shard: Shard[R], end: int) -> int:
    """Returns the offset of the oldest record; the end if there is none."""
    oldest = await _page(shard, 0, end, limit=1)
    return oldest[0][0] - 1 if oldest else end


async def _batch(shard: Shard[R], to_kafka: Format[R], offset: int, end: int, most_bytes: int) -> bytes:
    """Returns a record batch from `offset` on; it is empty only if the scanned range has no record."""
    records: list[tuple[int, KafkaRecord]] = []
    following, size = offset, 0
    while following - offset < _MOST_SCANNED and (page := await _page(shard, following, end)):
        for position, stored in page:
            record = to_kafka(stored)
            if record is not None:
                size += record.size
                if records and size > most_bytes:
                    return record_batch(offset, following, records)
                records.append((position - 1, record))
            following = position
    return record_batch(offset, following, records) if following > offset else b""


async def _page(shard: Shard[R], after: int, end: int, limit: int = _PAGE) -> list[tuple[int, R]]:
    """Returns durable records only: records after `end` may belong to an append in flight."""
    try:
        page = await shard.read(after, limit)
    except LogUnavailable as error:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the log cannot be read: {error}") from error
    return [(position, record) for position, record in page if position <= end]
