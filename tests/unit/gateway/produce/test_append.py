"""Produce: batches to their leaders."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import TOPIC, refusing
from tests.unit.gateway.produce.requests import appending, produced


@pytest.mark.parametrize("topic", [{"name": "flights"}, {"topic_id": TOPIC.topic_id}])
async def test_produce_does_not_change_batches(harness: Harness, topic: dict[str, str]) -> None:
    harness.leader.answer = appending
    (response,) = (await harness.produce.Produce(produced(1, b"\x00\xff", **topic))).responses
    assert (response.name, response.topic_id) == (TOPIC.name, TOPIC.topic_id)
    assert (response.partition_responses[0].index, response.partition_responses[0].base_offset) == (1, 100)
    (asked,) = harness.leader.of(leader.ProduceRequest)
    assert asked.partitions[0].record_batches == b"\x00\xff"


UNKNOWN = [
    (produced(2, name="flights"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (produced(0, topic_id="B" * 22), ErrorCode.UNKNOWN_TOPIC_ID),
    (produced(0, topic_id=TOPIC.topic_id, name="other"), ErrorCode.INCONSISTENT_TOPIC_ID),
    (produced(0, name="no/topic"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (produced(0), ErrorCode.INVALID_TOPIC_EXCEPTION),
]


@pytest.mark.parametrize(("request_", "code"), UNKNOWN)
async def test_produce_errors_per_partition(
    harness: Harness, request_: pb.ProduceRequest, code: ErrorCode
) -> None:
    (response,) = (await harness.produce.Produce(request_)).responses
    assert [(part.error_code, part.base_offset) for part in response.partition_responses] == [(code, -1)]
    assert harness.leader.asked == []


async def test_produce_retries_at_the_new_leader(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def settle(_: str) -> None:
        harness.leader.answer = appending

    harness.ownership.on_forget = settle
    (response,) = (await harness.produce.Produce(produced(0, name="flights"))).responses
    assert response.partition_responses[0].error_code == 0
    assert len(harness.leader.of(leader.ProduceRequest)) == 2


async def test_produce_reports_a_missing_leader_within_its_timeout(harness: Harness) -> None:
    harness.leader.answer = refusing(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    request = produced(0, name="flights")
    request.timeout_ms = 50
    (response,) = (await harness.produce.Produce(request)).responses
    assert response.partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
