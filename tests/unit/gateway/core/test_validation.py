"""Requests that are rejected before they have any effect."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.catalog.topics import check_group_id
from sharebroker_server.gateway.core.validation import (
    batches_refusal,
    check_bounds,
    check_delay,
    check_member,
    check_member_id,
    check_renewing_fetch,
    check_topic_names,
)
from tests.testkit.tables import each

# Batches, whether RENEW is announced, and a word of the error (None: accepted).
BATCHES: list[tuple[list[AckBatch], bool, str | None]] = [
    ([], False, None),
    ([AckBatch(0, 9, (1,))], False, None),
    ([AckBatch(0, 2, (1, 2, 3))], False, None),
    ([AckBatch(0, 2, (0, 0, 1))], False, None),
    ([AckBatch(5, 4, (1,))], False, "backwards"),
    ([AckBatch(-1, 4, (1,))], False, None),  # as in Kafka: such an offset is simply not held
    ([AckBatch(0, 5, (1,)), AckBatch(6, 9, (1,))], False, None),
    ([AckBatch(0, 5, (1,)), AckBatch(5, 9, (1,))], False, None),  # touching by one offset passes in Kafka
    ([AckBatch(0, 5, (1,)), AckBatch(4, 9, (1,))], False, "overlap"),
    ([AckBatch(6, 9, (1,)), AckBatch(0, 5, (1,))], False, "overlap"),
    ([AckBatch(-2, 5, (1,))], False, "0 or more"),
    ([AckBatch(0, 9, ())], False, "empty"),
    ([AckBatch(0, 9, (1, 1))], False, "2 entries for 10"),
    ([AckBatch(0, 1, (1, 1, 1))], False, "3 entries for 2"),
    ([AckBatch(0, 0, (-1,))], False, "-1"),
    ([AckBatch(0, 0, (5,))], True, "5"),
    ([AckBatch(0, 1, (1, 4))], False, "RENEW"),
    ([AckBatch(0, 1, (1, 4))], True, None),
    ([AckBatch(0, 1, (1,)), AckBatch(2, 3, (9,))], True, "9"),
]


@each("batches, renew, word", BATCHES)
def test_invalid_ack_batches_are_rejected_with_the_field(
    batches: list[AckBatch], renew: bool, word: str | None
) -> None:
    refusal = batches_refusal(batches, renew_allowed=renew)
    if word is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert word in refusal


@pytest.mark.parametrize("member_id", ["", "x" * 37])
def test_invalid_member_ids_are_rejected(member_id: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_member_id(member_id, "subscribe.member_id")
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in refused.value.violations] == ["subscribe.member_id"]


@pytest.mark.parametrize("member_id", ["m", "x" * 36, "AAAAAAAAAAAAAAAAAAAAAA"])
def test_valid_member_ids_are_accepted(member_id: str) -> None:
    check_member_id(member_id)


def test_empty_or_long_group_ids_are_rejected() -> None:
    check_group_id("group")
    with pytest.raises(KafkaError) as refused:
        check_group_id("")
    assert [violation.field for violation in refused.value.violations] == ["group_id"]


@pytest.mark.parametrize(("group_id", "member_id", "field"), [("", "m", "group_id"), ("g", "", "member_id")])
def test_a_member_has_a_valid_group_id_and_member_id(group_id: str, member_id: str, field: str) -> None:
    check_member("g", "m")
    with pytest.raises(KafkaError) as refused:
        check_member(group_id, member_id)
    assert [violation.field for violation in refused.value.violations] == [field]


def test_first_invalid_topic_name_is_reported() -> None:
    check_topic_names("topics", [])
    check_topic_names("topics", ["a", "not.created_yet-"])
    with pytest.raises(KafkaError) as refused:
        check_topic_names("topics", ["a", "", ".."])
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [violation.field for violation in refused.value.violations] == ["topics[1]"]


@pytest.mark.parametrize(("value", "fine"), [(0, False), (1, True), (5, True), (6, False)])
def test_value_out_of_bounds_is_rejected(value: int, fine: bool) -> None:
    if fine:
        check_bounds("max_records", value, 1, 5)
    else:
        with pytest.raises(KafkaError, match="1 to 5"):
            check_bounds("max_records", value, 1, 5)


@each(
    "delay_ms, kind, fine",
    [
        (0, 1, True),
        (0, 2, True),
        (1, 2, True),
        (86_400_000, 2, True),
        (86_400_001, 2, False),
        (-1, 2, False),
        (1, 0, False),
        (1, 1, False),
        (1, 3, False),
        (1, 4, False),
    ],
)
def test_only_releases_have_a_delay_of_at_most_a_day(delay_ms: int, kind: int, fine: bool) -> None:
    if fine:
        check_delay("delay_ms", delay_ms, kind)
    else:
        with pytest.raises(KafkaError) as refused:
            check_delay("delay_ms", delay_ms, kind)
        assert [violation.field for violation in refused.value.violations] == ["delay_ms"]


def test_renewing_fetch_with_sizes_is_rejected() -> None:
    check_renewing_fetch(max_wait_ms=0, max_records=0)
    with pytest.raises(KafkaError) as refused:
        check_renewing_fetch(max_wait_ms=0, max_records=7, min_bytes=1)
    assert [violation.field for violation in refused.value.violations] == ["max_records", "min_bytes"]
