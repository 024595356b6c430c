"""FindCoordinator: one key up to version 3, several keys from version 4 on."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

SHARE_KEY = f"group:with:colons:{TOPIC.topic_id}:0"


@pytest.mark.parametrize(("version", "key_type"), [(0, 0), (1, 1), (3, 0)])
async def test_version_3_finds_one_key(harness: Harness, version: int, key_type: int) -> None:
    request = FindCoordinatorRequest(key="g", key_type=key_type)
    response = await harness.call(version, request, FindCoordinatorResponse)
    assert (response.error_code, response.node_id) == (ErrorCode.NONE, 1)
    assert (response.host, response.port) == ("127.0.0.1", 9092)


async def test_version_4_finds_several_keys(harness: Harness) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"])
    response = await harness.call(4, request, FindCoordinatorResponse)
    assert [(one.key, one.node_id, one.port, one.error_code) for one in response.coordinators] == [
        ("a", 1, 9092, 0),
        ("b", 1, 9092, 0),
    ]


@pytest.mark.parametrize(
    ("version", "key", "code"),
    [
        (5, SHARE_KEY, ErrorCode.INVALID_REQUEST),
        (6, SHARE_KEY, ErrorCode.NONE),
        (6, "group:topic:0", ErrorCode.INVALID_REQUEST),
        (6, f"g:{TOPIC.topic_id}:x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_share_keys_exist_from_version_6_on(
    harness: Harness, version: int, key: str, code: ErrorCode
) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    (found,) = (await harness.call(version, request, FindCoordinatorResponse)).coordinators
    assert (found.key, found.error_code) == (key, code)
    assert found.node_id == (1 if code is ErrorCode.NONE else -1)


async def test_an_unknown_type_is_an_error(harness: Harness) -> None:
    request = FindCoordinatorRequest(key="g", key_type=9)
    response = await harness.call(1, request, FindCoordinatorResponse)
    assert (response.error_code, response.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert response.error_message == "There is no coordinator for 'g' of type 9."
