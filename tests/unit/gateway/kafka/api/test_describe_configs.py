"""DescribeConfigs: effective values, with their origins on request."""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.gateway.admin.configs import DESCRIBED_AT_ONCE, MAX_DESCRIBED
from sharebroker_server.kafka_wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness
from tests.unit.gateway.kafka.api.test_many_entries import CountedTurns

TOPICS, BROKERS, LOGGERS = 2, 4, 8


def resource(
    kind: int, name: str, keys: Sequence[str] | None = None
) -> DescribeConfigsRequest.DescribeConfigsResource:
    return DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )


async def test_each_resource_has_its_own_result(harness: Harness) -> None:
    resources = [
        resource(TOPICS, TOPIC.name, ["retention.ms"]),
        resource(BROKERS, "1"),
        resource(BROKERS, "2"),
        resource(LOGGERS, "1"),
    ]
    response = await harness.call(4, DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    found = [(one.resource_type, one.resource_name, one.error_code) for one in response.results]
    assert found == [
        (TOPICS, TOPIC.name, ErrorCode.NONE),
        (BROKERS, "1", ErrorCode.NONE),
        (BROKERS, "2", ErrorCode.INVALID_REQUEST),
        (LOGGERS, "1", ErrorCode.INVALID_REQUEST),
    ]
    assert [one.name for one in response.results[0].configs] == ["retention.ms"]
    assert {one.read_only for one in response.results[1].configs} == {True, False}
    assert response.results[2].error_message == (
        "Unexpected broker id, expected 1 or empty string, but received 2."
    )


async def test_synonyms_and_documentation_are_returned_on_request(harness: Harness) -> None:
    resources = [resource(TOPICS, TOPIC.name, ["retention.ms"])]
    plain = await harness.call(4, DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    full = await harness.call(4, request, DescribeConfigsResponse)
    (without,), (config,) = plain.results[0].configs, full.results[0].configs
    assert (without.synonyms, without.documentation) == ([], None)
    assert config.documentation
    assert config.synonyms
    assert config.config_type != 0
    old = await harness.call(2, request, DescribeConfigsResponse)
    assert old.results[0].configs[0].documentation is None


async def test_other_requests_are_served_in_between(harness: Harness) -> None:
    harness.gateway.turns = turns = CountedTurns()
    request = DescribeConfigsRequest(resources=[resource(TOPICS, TOPIC.name, ["retention.ms"])] * 40)
    response = await harness.call(4, request, DescribeConfigsResponse)
    assert [len(one.configs) for one in response.results] == [1] * 40
    assert turns.taken >= 40 / DESCRIBED_AT_ONCE


async def test_too_many_resources_are_rejected(harness: Harness) -> None:
    resources = [resource(TOPICS, TOPIC.name)] * (MAX_DESCRIBED + 1)
    response = await harness.call(4, DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    assert {one.error_code for one in response.results} == {ErrorCode.INVALID_REQUEST}
    assert {len(one.configs) for one in response.results} == {0}
