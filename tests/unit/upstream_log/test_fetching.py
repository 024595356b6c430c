"""Fetch requests by name and by id, and what their responses contain."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_server.kafka_client.core.apis import FETCH
from sharebroker_server.kafka_client.core.fetch_session import Position, SessionRequest
from sharebroker_server.kafka_wire.messages import FetchResponse
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.upstream_log.fetching import FetchSettings, alone, fetch, fetches_by_id
from tests.unit.kafka_client.harness import OFFERED, Broker, connected

ID = "AAAAAAAAAAAAAAAAAAAABw"


@pytest.mark.parametrize(("version", "by_id"), [(4, False), (7, False), (12, False), (13, True)])
async def test_topics_have_names_or_ids_as_the_version_requires(version: int, by_id: bool) -> None:
    topic = ID if by_id else "t"

    async def respond(key: int, _: int, message: Any) -> Message | None:
        if key != FETCH.key:
            return None
        part = FetchResponse.PartitionData(
            partition_index=3, error_code=0, high_watermark=9, last_stable_offset=8, records=b""
        )
        named = FetchResponse.FetchableTopicResponse(
            topic="" if by_id else "t", topic_id=ID if by_id else "", partitions=[part]
        )
        return FetchResponse(session_id=5 if version >= 7 else 0, responses=[named])

    broker = Broker(offered=OFFERED | {FETCH.key: (0, version)}, respond=respond)
    async with connected(broker) as connection:
        assert fetches_by_id(connection) is by_id
        settings = FetchSettings(max_wait_ms=700, min_bytes=1, partition_bytes=50, max_bytes=60)
        asked = SessionRequest(
            5 if version >= 7 else 0,
            2 if version >= 7 else -1,
            {(topic, 3): Position(20, 50, 4), (topic, 1): Position(8, 50, 4)},
            [(topic, 2)] if version >= 7 else [],
        )
        found = await fetch(connection, asked, settings, committed=True)
    assert list(found.partitions) == [(topic, 3)]
    assert found.partitions[topic, 3].high_watermark == 9
    _, _, request = broker.received[-1]
    ((named_topic),) = request.topics
    assert (named_topic.topic_id if by_id else named_topic.topic) == topic
    assert [(part.partition, part.fetch_offset) for part in named_topic.partitions] == [(3, 20), (1, 8)]
    assert (request.replica_id, request.max_wait_ms, request.isolation_level) == (-1, 700, 1)
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (5, 2)
        assert [each.partitions for each in request.forgotten_topics_data] == [[2]]


def test_a_request_for_one_partition_opens_no_session() -> None:
    asked = alone(("t", 0), Position(3, 10))
    assert (asked.session_id, asked.session_epoch) == (0, -1)
    assert not asked.full
