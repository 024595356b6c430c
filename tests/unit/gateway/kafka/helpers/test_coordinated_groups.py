"""Requests about several groups."""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.helpers.coordinated_groups import coordinates, each_group
from sharebroker_server.kafka_wire.messages import ApiVersionsRequest
from tests.unit.gateway.kafka.api.harness import Harness


async def serve(group_ids: Sequence[str]) -> list[str]:
    return [f"served {group_id}" for group_id in group_ids]


def rejected(group_id: str, error: KafkaError) -> str:
    assert error.code is ErrorCode.NOT_COORDINATOR
    return f"rejected {group_id}"


async def test_own_groups_are_served_once_each(harness: Harness) -> None:
    call = harness.call_of(ApiVersionsRequest())
    assert coordinates(call, "a")
    assert await each_group(call, ["b", "a", "b"], serve, rejected) == ["served b", "served a"]


async def test_other_groups_are_rejected(harness: Harness) -> None:
    harness.lead_elsewhere()
    call = harness.call_of(ApiVersionsRequest())
    assert not coordinates(call, "a")
    assert await each_group(call, ["a"], serve, rejected) == ["rejected a"]
