"""ListConfigResources: resources with configs, by type."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_wire.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness

TOPICS, BROKERS, CLIENT_METRICS = 2, 4, 16


def listed(response: ListConfigResourcesResponse) -> list[tuple[int, str]]:
    return [(one.resource_type, one.resource_name) for one in response.config_resources]


async def test_resources_are_listed_by_type(harness: Harness) -> None:
    request = ListConfigResourcesRequest(resource_types=[BROKERS, BROKERS])
    assert listed(await harness.call(1, request, ListConfigResourcesResponse)) == [(BROKERS, "1")]
    every = await harness.call(1, ListConfigResourcesRequest(), ListConfigResourcesResponse)
    assert {(BROKERS, "1"), (TOPICS, TOPIC.name), (TOPICS, "__consumer_offsets")} <= {*listed(every)}


async def test_version_0_lists_client_metrics_only(harness: Harness) -> None:
    response = await harness.call(0, ListConfigResourcesRequest(), ListConfigResourcesResponse)
    assert (response.error_code, listed(response)) == (ErrorCode.NONE, [])


async def test_an_unknown_type_is_an_error(harness: Harness) -> None:
    request = ListConfigResourcesRequest(resource_types=[TOPICS, 99])
    response = await harness.call(1, request, ListConfigResourcesResponse)
    assert (response.error_code, listed(response)) == (ErrorCode.UNSUPPORTED_VERSION, [])
