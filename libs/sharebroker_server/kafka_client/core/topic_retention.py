"""How long a cluster keeps the records of its topics, as its configs state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_server.kafka_wire.messages import DescribeConfigsRequest, DescribeConfigsResponse

TOPIC: Final = 2
"""The resource type of a topic."""

TOPICS_AT_ONCE: Final = 1_000
"""Topics of one request."""

_MS, _BYTES, _POLICY = "retention.ms", "retention.bytes", "cleanup.policy"


class TopicRetention(NamedTuple):
    """The age (ms) and the size of a partition (bytes) above which records are deleted; -1 for no limit."""

    ms: int = -1
    bytes: int = -1


def retention_requests(topics: Sequence[str]) -> Iterator[DescribeConfigsRequest]:
    """Yields the requests for the retention of topics."""
    for first in range(0, len(topics), TOPICS_AT_ONCE):
        yield DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=TOPIC, resource_name=name, configuration_keys=[_MS, _BYTES, _POLICY]
                )
                for name in topics[first : first + TOPICS_AT_ONCE]
            ]
        )


def described_retention(responses: Iterable[DescribeConfigsResponse]) -> dict[str, TopicRetention]:
    """Returns the retention of the topics whose configs the client may read."""
    return {
        result.resource_name: _retention({each.name: each.value for each in result.configs})
        for response in responses
        for result in response.results
        if not result.error_code
    }


def _retention(configs: Mapping[str, str | None]) -> TopicRetention:
    if "delete" not in (configs.get(_POLICY) or "delete"):  # compacted only
        return TopicRetention()
    return TopicRetention(_limit(configs.get(_MS)), _limit(configs.get(_BYTES)))


def _limit(value: str | None) -> int:
    """Returns a limit; -1 for none, or for a value that is no number."""
    try:
        return max(int(value or -1), -1)
    except ValueError:
        return -1
