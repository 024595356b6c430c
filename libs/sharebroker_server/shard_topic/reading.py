"""Reads a shard's log as a partition: by offset, by time, waiting for what comes.

The offset of a record is its position less one, so that a log begins at 0. Offsets never change; trimming
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
_MOST_LOOKED_AT: Final = 5_000
"""Offsets that one answer covers, whether or not the topic shows something there."""

_NONE: Final = pb.FindShareGroupStateOffsetResponse(offset=-1, timestamp=-1)

R = TypeVar("R")
Host = ShardHost[Any, R, Any]
Shard = ShardRuntime[Any, R, Any]
Form = Callable[[R], KafkaRecord | None]
"""A record of the shard in Kafka's form; None for what the topic does not show."""


async def fetch(
    host: Host[R], form: Form[R], request: pb.FetchShareGroupStateRequest
) -> pb.FetchShareGroupStateResponse:
    """Raises OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION (no such shard), what `form` raises, and
    NOT_COORDINATOR and its like where the shard takes no commands.
    """
    shard = _shard(host, request.shard)
    offset, end = request.fetch_offset, shard.end()
    if offset == end:
        await shard.grown(end, min(request.max_wait_ms / 1000, _MOST_WAIT))
        end = shard.end()
    start = await _start(shard, end)
    if not start <= offset <= end:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Offset {offset} is outside of the log, which goes from {start} to {end}.",
            metadata={"log_start_offset": str(start), "high_watermark": str(end)},
        )
    return pb.FetchShareGroupStateResponse(
        record_batches=await _batch(shard, form, offset, end, min(request.max_bytes, _MOST_BYTES)),
        log_start_offset=start,
        high_watermark=end,
    )


async def find_offset(
    host: Host[R], form: Form[R], request: pb.FindShareGroupStateOffsetRequest
) -> pb.FindShareGroupStateOffsetResponse:
    """Raises INVALID_REQUEST (a timestamp that means nothing) and as `fetch` does."""
    shard, timestamp = _shard(host, request.shard), request.timestamp
    end = shard.end()
    if timestamp == LATEST:
        return pb.FindShareGroupStateOffsetResponse(offset=end, timestamp=-1)
    if timestamp == EARLIEST:
        return pb.FindShareGroupStateOffsetResponse(offset=await _start(shard, end), timestamp=-1)
    if timestamp < NEWEST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Timestamp {timestamp} means nothing.")
    return await _by_time(shard, form, end, timestamp)


def _shard(host: Host[R], index: int) -> Shard[R]:
    if not 0 <= index < (host.shards or 1):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no shard {index}.")
    return host.shard(index)


async def _by_time(
    shard: Shard[R], form: Form[R], end: int, timestamp: int
) -> pb.FindShareGroupStateOffsetResponse:
    """The first record that is not older than `timestamp`, or the newest of all."""
    newest, position = _NONE, 0
    while page := await _page(shard, position, end):
        for position, stored in page:
            record = form(stored)
            if record is None:
                continue
            found = pb.FindShareGroupStateOffsetResponse(offset=position - 1, timestamp=record.timestamp_ms)
            if timestamp != NEWEST and found.timestamp >= timestamp:
                return found
            if found.timestamp > newest.timestamp:
                newest = found
    return newest if timestamp == NEWEST else _NONE


async def _start(shard: Shard[R], end: int) -> int:
    """The offset of the oldest record; the end where none is left."""
    oldest = await _page(shard, 0, end, limit=1)
    return oldest[0][0] - 1 if oldest else end


async def _batch(shard: Shard[R], form: Form[R], offset: int, end: int, most_bytes: int) -> bytes:
    """A record batch from `offset` on. It has one record at least if there is any not too far behind."""
    records: list[tuple[int, KafkaRecord]] = []
    following, size = offset, 0
    while following - offset < _MOST_LOOKED_AT and (page := await _page(shard, following, end)):
        for position, stored in page:
            record = form(stored)
            if record is not None:
                size += record.size
                if records and size > most_bytes:
                    return record_batch(offset, following, records)
                records.append((position - 1, record))
            following = position
    return record_batch(offset, following, records) if following > offset else b""


async def _page(shard: Shard[R], after: int, end: int, limit: int = _PAGE) -> list[tuple[int, R]]:
    """What is durable and surely stays; behind `end` an append may still be under way."""
    try:
        page = await shard.read(after, limit)
    except LogUnavailable as error:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the log cannot be read: {error}") from error
    return [(position, record) for position, record in page if position <= end]
