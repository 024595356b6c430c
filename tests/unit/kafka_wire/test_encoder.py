"""Encoding of messages: defaults, nulls, values out of range."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from sharebroker_server.kafka_wire.encoder import EncodedArray, put_uvarint
from sharebroker_server.kafka_wire.frames import codec_of
from sharebroker_server.kafka_wire.messages import (
    ApiVersionsResponse,
    DescribeTopicPartitionsRequest,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)

METADATA, API_VERSIONS, PRODUCE, DESCRIBE_TOPIC_PARTITIONS, FETCH = 3, 18, 0, 75, 1


def written(key: int, version: int, message: Any, *, answer: bool = False) -> bytes:
    """A message as bytes."""
    how = codec_of(key, version)
    out = bytearray()
    (how.write_response if answer else how.write_request)(out, message)
    return bytes(out)


@pytest.mark.parametrize(
    ("value", "data"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (1 << 31, b"\x80\x80\x80\x80\x08")]
)
def test_uvarint_is_encoded(value: int, data: bytes) -> None:
    out = bytearray()
    put_uvarint(out, value)
    assert out == data


def test_unset_fields_are_written_as_defaults() -> None:
    fetch = FetchRequest()
    assert written(FETCH, 4, fetch) == struct.pack(">iiiibi", -1, 0, 0, 0x7FFFFFFF, 0, 0)


def test_null_is_written_as_empty_in_versions_without_null() -> None:
    everything = MetadataRequest(topics=None)
    assert written(METADATA, 1, everything) == b"\xff\xff\xff\xff"
    assert written(METADATA, 0, everything) == b"\0\0\0\0"
    assert written(METADATA, 9, everything) == b"\0" + b"\1\0\0" + b"\0"
    nameless = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=None)])
    assert written(METADATA, 1, nameless) == b"\0\0\0\1" + b"\0\0"
    assert written(METADATA, 9, nameless)[:3] == b"\2" + b"\1" + b"\0"
    assert written(METADATA, 12, nameless)[:19] == b"\2" + bytes(16) + b"\0" + b"\0"
    records = ProduceRequest.PartitionProduceData(records=None)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[records])
    head = b"\xff\xff" + struct.pack(">hi", 0, 0)
    produce = ProduceRequest(topic_data=[topic])
    assert written(PRODUCE, 3, produce) == head + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(4) + b"\xff\xff\xff\xff"


def test_long_strings_have_longer_lengths() -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="n" * 300)])
    assert written(METADATA, 9, request)[:6] == b"\2" + b"\xad\2" + b"nnn"
    assert written(METADATA, 1, request)[4:9] == b"\x01\x2c" + b"nnn"


def test_nullable_struct_is_encoded() -> None:
    request: Any = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10)
    assert written(DESCRIBE_TOPIC_PARTITIONS, 0, request) == b"\1" + b"\0\0\0\x0a" + b"\xff" + b"\0"
    request.cursor = DescribeTopicPartitionsRequest.Cursor(topic_name="t", partition_index=7)
    data = b"\1" + b"\0\0\0\x0a" + b"\1" + b"\2t\0\0\0\7\0" + b"\0"
    assert written(DESCRIBE_TOPIC_PARTITIONS, 0, request) == data


def test_tagged_fields_are_written_unless_default() -> None:
    plain = b"\0\0" + b"\1" + b"\0\0\0\0"
    response = ApiVersionsResponse()
    assert written(API_VERSIONS, 3, response, answer=True) == plain + b"\0"
    response = ApiVersionsResponse(supported_features=[], finalized_features_epoch=-1)
    assert written(API_VERSIONS, 3, response, answer=True) == plain + b"\0"
    response = ApiVersionsResponse(finalized_features_epoch=42, zk_migration_ready=True)
    tags = b"\2" + b"\1\x08" + struct.pack(">q", 42) + b"\3\1\1"
    assert written(API_VERSIONS, 3, response, answer=True) == plain + tags
    feature = ApiVersionsResponse.SupportedFeatureKey(name="f", min_version=1, max_version=2)
    response = ApiVersionsResponse(supported_features=(feature,))
    assert written(API_VERSIONS, 3, response, answer=True) == plain + b"\1" + b"\0\x08" + b"\2\2f\0\1\0\2\0"


def test_a_default_tagged_struct_is_not_written() -> None:
    unset = ProduceResponse.PartitionProduceResponse(index=1)
    same = ProduceResponse.PartitionProduceResponse(
        index=1, current_leader=ProduceResponse.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    )
    other = ProduceResponse.PartitionProduceResponse(
        index=1, current_leader=ProduceResponse.LeaderIdAndEpoch(leader_id=3)
    )
    lengths = []
    for part in (unset, same, other):
        topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=[part])
        lengths.append(len(written(PRODUCE, 10, ProduceResponse(responses=[topic]), answer=True)))
    assert lengths[0] == lengths[1] == lengths[2] - 11


@pytest.mark.parametrize(
    "fields",
    [
        {"max_wait_ms": 1 << 31},
        {"max_wait_ms": "soon"},
        {"session_id": None},
        {"topics": 5},
        {"topics": [None]},
        {"rack_id": 7},
        {"rack_id": "r" * 40_000},
    ],
)
def test_values_outside_the_type_are_rejected(fields: dict[str, Any]) -> None:
    fetch = FetchRequest(**fields)
    with pytest.raises((struct.error, TypeError, AttributeError)):
        written(FETCH, 11, fetch)


def test_an_invalid_id_is_rejected() -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(topic_id="nonsense")])
    with pytest.raises(ValueError, match="nonsense"):
        written(METADATA, 12, request)


@pytest.mark.parametrize("version", [1, 9, 13])
def test_encoded_structs_are_copied(version: int) -> None:
    topics = [MetadataResponse.MetadataResponseTopic(name=name) for name in ("one", "two")]
    encoded = EncodedArray(map(codec_of(METADATA, version).encoded, topics))
    whole, copied = MetadataResponse(topics=topics), MetadataResponse(topics=encoded)  # type: ignore[arg-type]
    assert written(METADATA, version, copied, answer=True) == written(METADATA, version, whole, answer=True)
