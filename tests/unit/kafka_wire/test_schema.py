"""Schemas by API key and by message name, and messages as objects."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_server.kafka_wire.messages import FetchRequest, ProduceResponse, ShareFetchResponse
from sharebroker_server.kafka_wire.schema import api_schema, equal_values, id_bytes, id_text, message_struct


def test_a_struct_has_the_fields_of_a_version_in_wire_order() -> None:
    response = api_schema(0).response
    assert [field.name for field in response.of(3)] == ["responses", "throttle_time_ms"]
    assert "node_endpoints" in [field.name for field in response.of(10)]


def test_descendants_are_the_structs_at_every_depth() -> None:
    names = [struct.name for struct in api_schema(78).request.descendants()]
    assert names == ["FetchTopic", "FetchPartition", "AcknowledgementBatch", "ForgottenTopic"]


def test_nullability_depends_on_the_version() -> None:
    name = next(
        field for field in api_schema(3).response.descendants().__next__().fields if field.name == "rack"
    )
    assert not name.is_nullable(0)
    assert name.is_nullable(1)


def test_structs_are_found_by_message_name() -> None:
    assert message_struct("ShareFetchRequest") is api_schema(78).request
    assert message_struct("ShareFetchResponse") is api_schema(78).response
    with pytest.raises(KeyError):
        message_struct("ShareFetchAnswer")
    with pytest.raises(KeyError):
        api_schema(9999)


def test_fields_of_every_version_have_their_defaults() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.topics, request.cluster_id) == (
        -1,
        0x7FFFFFFF,
        (),
        None,
    )
    assert FetchRequest.FetchPartition().replica_directory_id == ""
    assert ShareFetchResponse.PartitionData().current_leader.leader_id == 0
    assert ProduceResponse.PartitionProduceResponse().current_leader.leader_id == -1


def test_unknown_fields_are_rejected() -> None:
    shape: Any = FetchRequest
    with pytest.raises(TypeError, match=r"FetchRequest has no \['topic'\]"):
        shape(topic="t")
    with pytest.raises(AttributeError, match="'FetchRequest' object has no attribute 'topic'"):
        _ = shape().topic


def test_messages_with_equal_fields_are_equal() -> None:
    topic = FetchRequest.FetchTopic(topic="t", partitions=[])
    assert topic == FetchRequest.FetchTopic(topic="t")
    assert topic != FetchRequest.FetchTopic(topic="u")
    assert topic != FetchRequest.ForgottenTopic(topic="t")
    assert FetchRequest(topics=[topic]) == FetchRequest(topics=(topic,), min_bytes=0)
    assert FetchRequest(topics=[topic]) != FetchRequest(topics=[topic, topic])


def test_arrays_are_equal_whatever_their_sequence_type() -> None:
    assert equal_values([1, [2]], (1, (2,)))
    assert not equal_values([1], (1, 2))
    assert not equal_values([1], 1)


def test_the_repr_has_the_fields_that_were_set() -> None:
    topic = FetchRequest.FetchTopic(topic="t", partitions=[])
    assert repr(topic) == "FetchTopic(topic='t', partitions=[])"


@pytest.mark.parametrize(
    ("raw", "text"),
    [(bytes(16), ""), (bytes(range(16)), "AAECAwQFBgcICQoLDA0ODw"), (b"\xff" * 16, "_____________________w")],
)
def test_ids_round_trip(raw: bytes, text: str) -> None:
    assert id_text(raw) == text
    assert id_bytes(text) == raw


@pytest.mark.parametrize("text", ["a", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODw==", "é" * 22, "a b"])
def test_invalid_ids_are_rejected(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each kind of text has its own message
        id_bytes(text)
