"""The checks of a dead letter topic, and retries."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.share_partition_leader.dead_letters.target import (
    DeadLetterTarget,
    DeadLetterTopic,
    FailurePolicy,
    gives_up,
    pause_after,
    refusal,
)
from tests.unit.share_partition_leader.dead_letters.settings import DisabledLetters

ENABLED = DeadLetterTopic("D", 3, True, 1_000_000)


@dataclass
class Settings(DisabledLetters):
    auto_create: bool = False
    prefix: str = "dlq."


@pytest.mark.parametrize(
    ("name", "topic", "auto_create", "cause"),
    [
        ("", None, True, "Configured DLQ topic name in share group: g is empty."),
        (
            "__x",
            ENABLED,
            True,
            "Configured DLQ topic name in share group: g cannot start with __, topic: __x.",
        ),
        (
            "other",
            ENABLED._replace(enabled=False),
            True,
            "DLQ is not enabled on configured DLQ topic for share group: g, topic: other.",
        ),
        (
            "other",
            None,
            False,
            "DLQ topic does not exist and auto create is disabled on cluster for share group: g, "
            "topic: other.",
        ),
        (
            "other",
            ENABLED,
            False,
            "Configured DLQ topic name does not comply with the DLQ topic prefix in share group: g, "
            "topic: other, prefix: dlq..",
        ),
        ("dlq.a", None, True, ""),
        ("dlq.a", ENABLED, False, ""),
    ],
)
def test_topics_are_checked_in_the_order_of_kafka(
    name: str, topic: DeadLetterTopic | None, auto_create: bool, cause: str
) -> None:
    assert refusal("g", name, topic, Settings(auto_create)) == cause


def test_an_empty_prefix_permits_every_name() -> None:
    assert not refusal("g", "other", ENABLED, Settings(prefix=""))


@pytest.mark.parametrize(
    ("policy", "code", "attempts", "result"),
    [
        (FailurePolicy.HOLD, ErrorCode.INVALID_CONFIG, 1_000_000, False),
        (FailurePolicy.ARCHIVE, ErrorCode.INVALID_CONFIG, 1, True),
        (FailurePolicy.ARCHIVE, ErrorCode.MESSAGE_TOO_LARGE, 1, True),
        (FailurePolicy.ARCHIVE, ErrorCode.REQUEST_TIMED_OUT, 4, False),
        (FailurePolicy.ARCHIVE, ErrorCode.REQUEST_TIMED_OUT, 5, True),
    ],
)
def test_only_the_policy_archive_gives_up(
    policy: FailurePolicy, code: ErrorCode, attempts: int, result: bool
) -> None:
    assert gives_up(policy, code, attempts) is result


def test_pauses_double_up_to_half_a_minute() -> None:
    assert [pause_after(attempts, 0.5) for attempts in (1, 2, 3, 4, 5, 5000)] == [2, 4, 8, 16, 30, 30]
    assert (pause_after(5, 0.0), pause_after(5, 1.0)) == (24.0, 36.0)


def test_without_settings_no_group_has_a_topic() -> None:
    disabled = DisabledLetters()
    assert disabled.target("g") == DeadLetterTarget("")
    assert disabled.topic("t") is None
    assert not disabled.auto_create
