"""Topics and resources with configs: names, ids, and the internal topics.

A topic id is 16 random bytes, written as in Kafka (base64url without padding, 22 characters). The internal
topics, which Kafka clients may read, are the logs of the share and group coordinators. The catalog does not
contain them, because their partitions are the coordinators' shards.
"""

from __future__ import annotations

import re
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import blake2b
from itertools import count
from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError, invalid_field
from sharebroker_server.config.broker import BrokerConfig

MAX_LENGTH: Final = 249
GROUP_ID_BYTES: Final = 2**15 - 1
"""The longest string in Kafka's protocol, in bytes."""
SHARE_STATE_STORAGE: Final = "share.state.storage"
"""The config of a topic that selects where the state of its share groups is stored."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


class ResourceType(IntEnum):
    """The kind of resource that has configs (Kafka: `ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A topic by name, a group by id, or a broker by number ("" for all brokers)."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `topic_id` is the text of 16 bytes, as in Kafka; `created_ms` is since the Unix epoch.

    The records of an `upstream` topic are in another Kafka cluster.
    """

    topic_id: str
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0
    upstream: bool = False

    @property
    def state_in_log(self) -> bool:
        """Whether the state of share groups is in the logs of the partitions: set when it was created."""
        return self.configs.get(SHARE_STATE_STORAGE) == "log"

    @property
    def fingerprint(self) -> int:
        """A 64-bit hash of the properties on which assignments depend: name, id, number of partitions."""
        text = f"{self.name}\0{self.topic_id}\0{self.partitions}"
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def check_topic_name(name: str, field: str = "name") -> None:
    """Raises INVALID_TOPIC_EXCEPTION for `field` unless Kafka accepts the name (`Topic.validate`)."""
    fault = _fault(name)
    if fault:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic name is invalid: {fault}",
            violations=[FieldViolation(field, fault)],
        )


def check_group_id(
    group_id: str, field: str = "group_id", code: ErrorCode = ErrorCode.INVALID_REQUEST
) -> None:
    """Raises `code` for `field` if the group id is empty or too long."""
    if not group_id:
        fault = "The group id must not be empty."
    elif len(group_id.encode()) > GROUP_ID_BYTES:
        fault = f"The group id must not exceed {GROUP_ID_BYTES} bytes."
    else:
        return
    raise invalid_field(field, fault, code)


def _fault(name: str) -> str:
    if not name:
        return "the empty string is not allowed."
    if name in (".", ".."):
        return "'.' and '..' are not allowed."
    if len(name) > MAX_LENGTH:
        return f"the length of '{name[:32]}...' is longer than {MAX_LENGTH} characters."
    if not _LEGAL.fullmatch(name):
        return f"{name!r} contains characters other than ASCII letters, digits, '.', '_', '-'."
    return ""


def topic_id_text(raw: bytes) -> str:
    """Returns the text of 16 bytes."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def new_topic_id() -> str:
    """Returns a random id that does not start with a dash, which command lines would read as an option."""
    drawn = (topic_id_text(uuid.uuid4().bytes) for _ in count())
    return next(text for text in drawn if not text.startswith("-"))


STATE_TOPIC: Final = "__share_group_state"
"""Kafka's topic of the share coordinator; its partitions are the coordinator's shards."""

STATE_TOPIC_ID: Final = "L0q_9xXBWcW1PYDWSy-nXw"
"""The same in every cluster: a version 5 UUID, which no randomly drawn id can equal."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""Kafka's topic of the group coordinator; its partitions are the coordinator's shards."""

OFFSETS_TOPIC_ID: Final = "_RY4r9BRVi2OXDlmjLLUjQ"

INTERNAL_TOPIC_IDS: Final = {STATE_TOPIC: STATE_TOPIC_ID, OFFSETS_TOPIC: OFFSETS_TOPIC_ID}
"""Topic id by name."""

INTERNAL_TOPIC_NAMES: Final = {topic_id: name for name, topic_id in INTERNAL_TOPIC_IDS.items()}
"""Name by topic id."""

INTERNAL_TOPIC_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
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
    return Topic(
        INTERNAL_TOPIC_IDS[name],
        name,
        internal_partitions(config)[INTERNAL_TOPIC_IDS[name]],
        INTERNAL_TOPIC_CONFIGS[name],
    )


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
    for internal, internal_id in INTERNAL_TOPIC_IDS.items():
        if name == internal or topic_id == internal_id:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{internal}' is internal: it can be read, not written or changed.",
            )
