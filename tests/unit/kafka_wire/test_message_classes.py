"""Messages as objects, and ids."""

from __future__ import annotations

import pytest

from sharebroker_server.kafka_wire.message_classes import request_shapes, response_shapes
from sharebroker_server.kafka_wire.topic_ids import id_bytes, id_text

FETCH, PRODUCE, SHARE_FETCH = 1, 0, 78


def test_fields_of_every_version_have_their_defaults() -> None:
    request = request_shapes(FETCH).FetchRequest()
    assert (request.replica_id, request.max_bytes, request.topics, request.cluster_id) == (
        -1,
        0x7FFFFFFF,
        (),
        None,
    )
    assert request_shapes(FETCH).FetchPartition().replica_directory_id == ""
    assert response_shapes(SHARE_FETCH).PartitionData().current_leader.leader_id == 0
    assert response_shapes(PRODUCE).PartitionProduceResponse().current_leader.leader_id == -1


def test_only_the_schemas_fields_are_taken() -> None:
    shapes = request_shapes(FETCH)
    with pytest.raises(TypeError, match=r"FetchRequest has no \['topic'\]"):
        shapes.FetchRequest(topic="t")
    with pytest.raises(AttributeError, match="FetchRequest has no field topic"):
        _ = shapes.FetchRequest().topic
    with pytest.raises(AttributeError, match="no struct FetchAnswer"):
        _ = shapes.FetchAnswer


def test_messages_are_equal_when_their_fields_are() -> None:
    shapes = request_shapes(FETCH)
    topic = shapes.FetchTopic(topic="t", partitions=[])
    assert topic == shapes.FetchTopic(topic="t")
    assert topic != shapes.FetchTopic(topic="u")
    assert topic != shapes.ForgottenTopic(topic="t")
    assert shapes.FetchRequest(topics=[topic]) == shapes.FetchRequest(topics=(topic,), min_bytes=0)
    assert shapes.FetchRequest(topics=[topic]) != shapes.FetchRequest(topics=[topic, topic])


def test_a_message_shows_what_was_set() -> None:
    topic = request_shapes(FETCH).FetchTopic(topic="t", partitions=[])
    assert repr(topic) == "FetchTopic(topic='t', partitions=[])"


@pytest.mark.parametrize(
    ("raw", "text"),
    [(bytes(16), ""), (bytes(range(16)), "AAECAwQFBgcICQoLDA0ODw"), (b"\xff" * 16, "_____________________w")],
)
def test_ids(raw: bytes, text: str) -> None:
    assert id_text(raw) == text
    assert id_bytes(text) == raw


@pytest.mark.parametrize("text", ["a", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODw==", "é" * 22, "a b"])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each kind of text has its own words
        id_bytes(text)
