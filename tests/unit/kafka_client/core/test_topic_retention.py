"""The retention that the configs of topics state, as far as the client may read them."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_client.core.topic_retention import (
    TOPIC,
    TOPICS_AT_ONCE,
    TopicRetention,
    described_retention,
    retention_requests,
)
from sharebroker_server.kafka_wire.messages import DescribeConfigsResponse
from tests.testkit.tables import each

Config = DescribeConfigsResponse.DescribeConfigsResourceResult
Result = DescribeConfigsResponse.DescribeConfigsResult


def response(name: str, configs: dict[str, str | None], error: int = 0) -> DescribeConfigsResponse:
    rows = [Config(name=key, value=value) for key, value in configs.items()]
    result = Result(error_code=error, resource_type=TOPIC, resource_name=name, configs=rows)
    return DescribeConfigsResponse(results=[result])


@each(
    "configs, retention",
    [
        ({"retention.ms": "60000", "retention.bytes": "-1"}, TopicRetention(60_000, -1)),
        ({"retention.ms": "-1", "retention.bytes": "5000"}, TopicRetention(-1, 5000)),
        ({"retention.ms": "0"}, TopicRetention(0, -1)),
        ({"retention.ms": "60000", "cleanup.policy": "compact"}, TopicRetention()),
        ({"retention.ms": "60000", "cleanup.policy": "compact,delete"}, TopicRetention(60_000, -1)),
        ({"retention.ms": None}, TopicRetention()),
        ({"retention.ms": "a week"}, TopicRetention()),
        ({}, TopicRetention()),
    ],
)
def test_limits_are_read_from_the_configs(configs: dict[str, str | None], retention: TopicRetention) -> None:
    assert described_retention([response("t", configs)]) == {"t": retention}


def test_topics_without_the_right_to_their_configs_are_left_out() -> None:
    denied = response("a", {}, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert list(described_retention([denied, response("b", {})])) == ["b"]


@each("topics, sizes", [(0, []), (1, [1]), (TOPICS_AT_ONCE + 1, [TOPICS_AT_ONCE, 1])])
def test_many_topics_are_divided_into_requests(topics: int, sizes: list[int]) -> None:
    names = [f"t{number}" for number in range(topics)]
    requests = list(retention_requests(names))
    assert [len(request.resources) for request in requests] == sizes
    assert [row.resource_name for request in requests for row in request.resources] == names
