"""Requests of attackers: small on the wire, expensive to check."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import cramjam

from sharebroker_server.kafka_wire.frames import codec_of, request_frame
from sharebroker_server.kafka_wire.schema import api_schema, message_class
from sharebroker_server.record_log.core.batch import header_of, seal
from tests.support.kafka_client import part
from tests.unit.record_log.batches import batch

PRODUCE, METADATA, CREATE_TOPICS = 0, 3, 19
ZSTD: Final = 4
RECORDS: Final = 250_000


def frame(key: int, version: int, **fields: Any) -> bytes:
    """Returns a request of an API with its length prefix."""
    message = message_class(api_schema(key).request)(**fields)
    return bytes(request_frame(1, "hostile", codec_of(key, version), message))


def produce(topic: str, partitions: Iterable[int], records: bytes) -> bytes:
    """Returns a Produce request with the same batch for each named partition."""
    data = [part(PRODUCE, "PartitionProduceData", index=index, records=records) for index in partitions]
    topics = [part(PRODUCE, "TopicProduceData", name=topic, partition_data=data)]
    return frame(PRODUCE, 9, acks=-1, timeout_ms=30_000, topic_data=topics)


_LEVEL: Final = 3
"""Of zstd; for these records the highest level takes seconds and does not make batches smaller."""


def packed(count: int, plain: bytes) -> bytes:
    """Returns a zstd batch whose header counts `count` records and which unpacks to `plain`."""
    header = header_of(batch(1))._replace(attributes=ZSTD, record_count=count, last_offset_delta=count - 1)
    return seal(header, bytes(cramjam.zstd.compress(plain, _LEVEL)))


def repeated(count: int = RECORDS, headers: int = 0) -> bytes:
    """Returns a batch of equal records: a few hundred bytes, and rejected because all have offset 0.

    Each record has no key, no value and `headers` empty headers.
    """
    return packed(count, _record(0, headers) * count)


@cache
def consecutive(count: int = RECORDS, headers: int = 0) -> bytes:
    """Returns a valid batch of the smallest records, each with `headers` empty headers."""
    return packed(count, b"".join(_record(offset, headers) for offset in range(count)))


def one_record(headers: int) -> bytes:
    """Returns a valid batch of one record with very many empty headers."""
    return packed(1, _record(0, headers))


def _record(offset: int, headers: int) -> bytes:
    content = b"\0\0" + _varint(offset) + b"\1\1" + _varint(headers) + b"\0\1" * headers
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """Returns a number of at least 0 in zigzag encoding."""
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def create_topics(sizes: dict[str, int], *, validate_only: bool = False) -> bytes:
    """Returns a CreateTopics request: names and partition counts."""
    topics = [
        part(CREATE_TOPICS, "CreatableTopic", name=name, num_partitions=size, replication_factor=-1)
        for name, size in sizes.items()
    ]
    return frame(CREATE_TOPICS, 7, topics=topics, timeout_ms=60_000, validate_only=validate_only)


def all_metadata() -> bytes:
    """Returns a Metadata request for all topics."""
    return frame(METADATA, 12, topics=None)
