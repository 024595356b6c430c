"""Where the dead letters of a group go, and the checks of that topic (Kafka: ShareGroupDLQManager)."""

from __future__ import annotations

from collections.abc import Awaitable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from sharebroker_protocol.errors import ErrorCode

INTERNAL_PREFIX: Final = "__"

RETRIED_BY_KAFKA: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors after which the policy `archive` sends letters again; `hold` does so after every error."""

ATTEMPTS: Final = 5
"""Attempts of the policy `archive`."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_JITTER: Final = 0.2


class FailurePolicy(StrEnum):
    """What happens to a record whose letter cannot be written (errors.deadletterqueue.failure.policy)."""

    HOLD = "hold"
    """It stays ARCHIVING, and the letter is sent again until it is written."""
    ARCHIVE = "archive"
    """It is archived after five attempts, or at once if they would not help (Kafka)."""


class DeadLetterTarget(NamedTuple):
    """The settings of a group: the name of its topic ("": none), whether records are copied, the policy."""

    topic: str
    copy: bool = False
    policy: FailurePolicy = FailurePolicy.HOLD


class DeadLetterTopic(NamedTuple):
    """A topic as far as it concerns letters; `enabled`: errors.deadletterqueue.group.enable."""

    topic_id: str
    partitions: int
    enabled: bool
    max_message_bytes: int


class LetterSettings(Protocol):
    """The configuration that the mover reads before each attempt; all of it may change at any time."""

    @property
    def auto_create(self) -> bool:
        """errors.deadletterqueue.auto.create.topics.enable of the broker."""

    @property
    def prefix(self) -> str:
        """errors.deadletterqueue.topic.name.prefix of the broker; "" permits every name."""

    def target(self, group_id: str) -> DeadLetterTarget:
        """Returns the settings of a group."""

    def topic(self, name: str) -> DeadLetterTopic | None:
        """Returns a topic, None if there is none with this name."""

    def create(self, name: str) -> Awaitable[None]:
        """Creates a topic that is enabled for letters. Raises KafkaError."""


def refusal(group_id: str, name: str, topic: DeadLetterTopic | None, settings: LetterSettings) -> str:
    """Returns why letters must not go to a topic, "" if they may; order and texts are Kafka's."""
    if not name:
        return f"Configured DLQ topic name in share group: {group_id} is empty."
    if name.startswith(INTERNAL_PREFIX):
        return f"Configured DLQ topic name in share group: {group_id} cannot start with __, topic: {name}."
    if topic is not None and not topic.enabled:
        return f"DLQ is not enabled on configured DLQ topic for share group: {group_id}, topic: {name}."
    if topic is None and not settings.auto_create:
        return (
            "DLQ topic does not exist and auto create is disabled on cluster for share group: "
            f"{group_id}, topic: {name}."
        )
    if not name.startswith(settings.prefix):
        return (
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: "
            f"{group_id}, topic: {name}, prefix: {settings.prefix}."
        )
    return ""


def gives_up(policy: FailurePolicy, code: ErrorCode, attempts: int) -> bool:
    """Whether records are archived without letters after so many attempts, the last with this error."""
    if policy is FailurePolicy.HOLD:
        return False
    return attempts >= ATTEMPTS or code not in RETRIED_BY_KAFKA


def pause_after(attempts: int, random: float) -> float:
    """Returns the seconds before the next attempt; `random` is in [0, 1).

    Kafka: 1 s, doubled with each attempt, at most 30 s, with a jitter of 20 %.
    """
    pause = min(_FIRST_PAUSE * 2.0 ** min(attempts, 10), _LONGEST_PAUSE)
    return pause * (1 + _JITTER * (2 * random - 1))
