"""The internal topics, which Kafka clients may read: the logs of the share and group coordinators.

The catalog does not contain them: their partitions are the coordinators' shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.records import Topic
from sharebroker_server.config.broker import BrokerConfig

STATE_TOPIC: Final = "__share_group_state"
"""Kafka's topic of the share coordinator; its partitions are the coordinator's shards."""

STATE_TOPIC_ID: Final = "L0q_9xXBWcW1PYDWSy-nXw"
"""The same in every cluster: a version 5 UUID, which no randomly drawn id can equal."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Kafka's topic of the group coordinator; its partitions are the coordinator's shards."""

OFFSETS_TOPIC_ID: Final = "_RY4r9BRVi2OXDlmjLLUjQ"

IDS: Final = {STATE_TOPIC: STATE_TOPIC_ID, OFFSETS_TOPIC: OFFSETS_TOPIC_ID}
"""Topic id by name."""

NAMES: Final = {topic_id: name for name, topic_id in IDS.items()}
"""Name by topic id."""

CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    STATE_TOPIC: {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "104857600"},
    OFFSETS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    },
}
"""Their configs as in Kafka: no time limit, but replaced records are removed."""


def internal_topic(name: str, config: BrokerConfig) -> Topic:
    """Returns an internal topic as clients see it."""
    return Topic(IDS[name], name, internal_partitions(config)[IDS[name]], CONFIGS[name])


def internal_partitions(config: BrokerConfig) -> dict[str, int]:
    """Returns the number of partitions of each, by topic id."""
    return {
        STATE_TOPIC_ID: config.share_coordinator_state_topic_num_partitions,
        OFFSETS_TOPIC_ID: config.offsets_topic_num_partitions,
    }


def partition_count(internal: Mapping[str, int], in_catalog: Callable[[str], int], topic_id: str) -> int:
    """Returns the number of partitions of a topic; `internal` contains those of internal topics."""
    return internal.get(topic_id) or in_catalog(topic_id)


def check_not_internal(name: str, topic_id: str = "") -> None:
    """Raises INVALID_TOPIC_EXCEPTION for an internal topic, as Kafka does for producers."""
    for internal, internal_id in IDS.items():
        if name == internal or topic_id == internal_id:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{internal}' is internal: it can be read, not written or changed.",
            )
