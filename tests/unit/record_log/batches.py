"""Batches for tests, made by an independent encoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharebroker_protocol.model import MESSAGE_ID_HEADER
from sharebroker_protocol.records.batches import NO_PRODUCER
from sharebroker_protocol.records.record import DELIVER_AT_HEADER
from sharebroker_server.record_log.core.batch import StoredBatch, assign, parse_headers

LIMIT = 1_048_588

Headers = Sequence[tuple[str, bytes | None]]


def _builder(
    codec: int = 0, producer: tuple[int, int, int] = NO_PRODUCER, transactional: bool = False
) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(2, codec, transactional, *producer, batch_size=1 << 22)


def of_records(records: Iterable[tuple[int, bytes | None, bytes | None, Headers]]) -> bytes:
    """A batch of records, each a time, a key, a value and headers."""
    builder = _builder()
    for offset, (time, key, value, headers) in enumerate(records):
        builder.append(offset, time, key, value, list(headers))
    return bytes(builder.build())


def batch(
    count: int = 3,
    size: int = 10,
    *,
    time: int = 1000,
    codec: int = 0,
    producer: tuple[int, int, int] = NO_PRODUCER,
    transactional: bool = False,
) -> bytes:
    """`count` records of `size` bytes with the times `time`, `time + 1`, …"""
    builder = _builder(codec, producer, transactional)
    for i in range(count):
        builder.append(i, time + i, None, b"x" * size, [])
    return bytes(builder.build())


def identified(
    ids: Sequence[str | bytes | None],
    *,
    time: int = 1000,
    codec: int = 0,
    producer: tuple[int, int, int] = NO_PRODUCER,
    transactional: bool = False,
) -> bytes:
    """A record for each message id (None: without one), all with the timestamp `time`."""
    builder = _builder(codec, producer, transactional)
    for index, message_id in enumerate(ids):
        value = message_id.encode() if isinstance(message_id, str) else message_id
        headers = [] if value is None else [(MESSAGE_ID_HEADER, value)]
        builder.append(index, time, None, b"x", [("other", b"y"), *headers])
    return bytes(builder.build())


def scheduled(
    times: Sequence[int | str | bytes | None],
    *,
    time: int = 1000,
    codec: int = 0,
    producer: tuple[int, int, int] = NO_PRODUCER,
    transactional: bool = False,
) -> bytes:
    """A record for each delivery time in ms (None: without one), all with the timestamp `time`."""
    builder = _builder(codec, producer, transactional)
    for index, due in enumerate(times):
        value = due if isinstance(due, bytes) else str(due).encode()
        headers = [] if due is None else [(DELIVER_AT_HEADER, value)]
        builder.append(index, time, None, b"x", [("other", b"y"), *headers])
    return bytes(builder.build())


def stored(base_offset: int, count: int = 3, size: int = 10, *, time: int = 1000) -> StoredBatch:
    """A batch as the leader stores it."""
    data = batch(count, size, time=time)
    return assign(data, parse_headers(data, LIMIT), base_offset, 1)[0]
