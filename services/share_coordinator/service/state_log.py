"""A shard's log as a partition of Kafka's topic __share_group_state: read-only, by offset.

The offset of a record is its position less one, so that a log begins at 0. Offsets never change; trimming
moves the log start offset.
"""

from __future__ import annotations

from typing import Final

from libs.coordinator_runtime.shard import ShardRuntime
from libs.stream_log.port import LogUnavailable
from services.share_coordinator.core.commands import Command, Reply
from services.share_coordinator.core.records import ShareRecord
from services.share_coordinator.store.kafka_format import KafkaRecord, kafka_record, record_batch
from sharebroker.errors import ErrorCode, KafkaError
from sharebroker.share_coordinator.v1 import share_coordinator_pb2 as pb

Shard = ShardRuntime[Command, ShareRecord, Reply]
Offset = pb.FindShareGroupStateOffsetResponse

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3

_MOST_BYTES: Final = 1024 * 1024
_MOST_WAIT: Final = 30.0
_PAGE: Final = 200
_NONE: Final = Offset(offset=-1, timestamp=-1)


async def fetch(shard: Shard, request: pb.FetchShareGroupStateRequest) -> pb.FetchShareGroupStateResponse:
    """Raises OFFSET_OUT_OF_RANGE, and NOT_COORDINATOR and its like where the shard takes no commands."""
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
        record_batches=await _batch(shard, offset, end, min(request.max_bytes, _MOST_BYTES)),
        log_start_offset=start,
        high_watermark=end,
    )


async def find_offset(shard: Shard, timestamp: int) -> Offset:
    """Raises INVALID_REQUEST (a timestamp that means nothing) and as `fetch` does."""
    end = shard.end()
    if timestamp == LATEST:
        return Offset(offset=end, timestamp=-1)
    if timestamp == EARLIEST:
        return Offset(offset=await _start(shard, end), timestamp=-1)
    if timestamp < NEWEST:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Timestamp {timestamp} means nothing.")
    return await _by_time(shard, end, timestamp)


async def _by_time(shard: Shard, end: int, timestamp: int) -> Offset:
    """The first record that is not older than `timestamp`, or the newest of all."""
    newest, position = _NONE, 0
    while page := await _page(shard, position, end):
        for position, record in page:
            written = record.write_timestamp_ms
            if timestamp != NEWEST and written >= timestamp:
                return Offset(offset=position - 1, timestamp=written)
            if written > newest.timestamp:
                newest = Offset(offset=position - 1, timestamp=written)
    return newest if timestamp == NEWEST else _NONE


async def _start(shard: Shard, end: int) -> int:
    """The offset of the oldest record; the end where none is left."""
    oldest = await _page(shard, 0, end, limit=1)
    return oldest[0][0] - 1 if oldest else end


async def _batch(shard: Shard, offset: int, end: int, most_bytes: int) -> bytes:
    """A record batch from `offset` on, of one record at least if there is any."""
    records: list[KafkaRecord] = []
    size = 0
    while page := await _page(shard, offset + len(records), end):
        if not records:
            offset = page[0][0] - 1  # later than asked for where the log was trimmed meanwhile
        for position, stored in page:
            record = kafka_record(stored)
            size += record.size
            if records and (size > most_bytes or position - 1 != offset + len(records)):
                return record_batch(offset, records)
            records.append(record)
    return record_batch(offset, records) if records else b""


async def _page(shard: Shard, after: int, end: int, limit: int = _PAGE) -> list[tuple[int, ShareRecord]]:
    """What is durable and surely stays; behind `end` an append may still be under way."""
    try:
        page = await shard.read(after, limit)
    except LogUnavailable as error:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the log cannot be read: {error}") from error
    return [(position, record) for position, record in page if position <= end]
