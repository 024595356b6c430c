"""Internal topics: the log of share state, which Kafka's clients may read, and the name of another."""

from __future__ import annotations

from typing import Final

from libs.catalog.records import Topic
from sharebroker.errors import ErrorCode, KafkaError

STATE_TOPIC: Final = "__share_group_state"
"""Kafka's name of it. It stands in no catalog: its partitions are the share coordinator's shards."""

STATE_TOPIC_ID: Final = "L0q_9xXBWcW1PYDWSy-nXw"
"""The same in every cluster; a UUID of version 5, so that no drawn one is ever like it."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Kafka's topic of group coordinators. Here it only shows, to those who ask for it by name, which broker
coordinates which groups: it has no records."""

OFFSETS_TOPIC_ID: Final = "_RY4r9BRVi2OXDlmjLLUjQ"

IDS: Final = {STATE_TOPIC: STATE_TOPIC_ID, OFFSETS_TOPIC: OFFSETS_TOPIC_ID}
"""Both, by name."""


STATE_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "104857600"}
"""Its settings as Kafka has them: no time limit, yet what newer records replaced goes."""


def state_topic(partitions: int) -> Topic:
    """The internal topic as clients see it."""
    return Topic(STATE_TOPIC_ID, STATE_TOPIC, partitions, STATE_CONFIGS)


def offsets_topic(partitions: int) -> Topic:
    """The group coordinator's shards, as clients see them who ask by name."""
    return Topic(OFFSETS_TOPIC_ID, OFFSETS_TOPIC, partitions, {})


def check_not_internal(name: str, topic_id: str = "") -> None:
    """Raises INVALID_TOPIC_EXCEPTION for an internal topic, as Kafka does for those who append to it."""
    for internal, its_id in IDS.items():
        if name == internal or topic_id == its_id:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{internal}' is internal: it can be read, not written or changed.",
            )
