"""How fetches name a topic, and what happens when another one has its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.metadata import TopicLeaders
from sharebroker_server.upstream_log.upstream_cluster import UpstreamPartition
from tests.unit.upstream_log.harness import TOPIC, Harness, running


def know(harness: Harness, topic_id: str) -> None:
    topics = {TOPIC: TopicLeaders(TOPIC, topic_id, {})}
    harness.client.metadata = replace(harness.client.metadata, topics=topics)


async def test_a_topic_that_was_created_again_is_not_read() -> None:
    async with running() as harness:
        know(harness, "other")
        with pytest.raises(KafkaError, match="created again") as rejected:
            harness.logs.topic_key(UpstreamPartition(TOPIC, 0, "mine"), by_id=False)
        assert rejected.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_topics_have_ids_where_the_cluster_has_them() -> None:
    async with running() as harness:
        know(harness, "mine")
        for topic_id in ("mine", ""):
            key = harness.logs.topic_key
            assert key(UpstreamPartition(TOPIC, 0, topic_id), by_id=True) == "mine"
            assert key(UpstreamPartition(TOPIC, 0, topic_id), by_id=False) == TOPIC
