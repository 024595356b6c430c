"""The cache of encoded topics: what it returns, and when it drops it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.kafka import encoded_topics
from sharebroker_server.gateway.kafka.cluster_view import ClusterView
from sharebroker_server.gateway.kafka.encoded_topics import EncodedTopics, Encoding

TOPIC = Topic("A" * 22, "flights", 2)
PLAIN = Encoding(9, operations=0)


def view() -> ClusterView:
    return ClusterView((), 1, 1, lambda _: 0, lambda _: 2)


def test_bytes_are_returned_for_the_same_topic_view_and_encoding() -> None:
    cache, here = EncodedTopics(), view()
    cache.put(here, PLAIN, TOPIC, b"x")
    assert cache.get(here, PLAIN, replace(TOPIC)) == b"x"
    assert cache.get(here, PLAIN, replace(TOPIC, partitions=3)) is None
    assert cache.get(here, Encoding(9, operations=8), TOPIC) is None
    assert cache.get(here, Encoding(10, operations=0), TOPIC) is None
    assert cache.get(view(), PLAIN, TOPIC) is None


def test_another_view_replaces_everything() -> None:
    cache, before, after = EncodedTopics(), view(), view()
    cache.put(before, PLAIN, TOPIC, b"x")
    cache.put(after, PLAIN, replace(TOPIC, topic_id="B" * 22), b"y")
    assert cache.get(after, PLAIN, TOPIC) is None
    assert cache.get(before, PLAIN, TOPIC) is None


def test_cached_bytes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_topics, "MAX_BYTES", 10)
    cache, here = EncodedTopics(), view()
    other = replace(TOPIC, topic_id="B" * 22)
    for _ in range(5):
        cache.put(here, PLAIN, TOPIC, b"12345")
    cache.put(here, PLAIN, other, b"1234")
    assert cache.get(here, PLAIN, TOPIC) == b"12345"
    cache.put(here, PLAIN, other, b"123456")
    assert cache.get(here, PLAIN, TOPIC) is None
    assert cache.get(here, PLAIN, other) == b"123456"
