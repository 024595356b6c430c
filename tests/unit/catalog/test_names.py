"""Legal names of topics and groups (Kafka: Topic.validate)."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.names import GROUP_ID_BYTES, MAX_LENGTH, check_group_id, check_topic_name


@pytest.mark.parametrize("name", ["a", "a.b_c-1", "A" * MAX_LENGTH])
def test_legal_topic_name_is_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "a/b", "A" * (MAX_LENGTH + 1)])
def test_illegal_topic_name_is_rejected_with_its_field(name: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_name(name, "topic")
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [violation.field for violation in caught.value.violations] == ["topic"]


def test_longest_group_id_is_accepted() -> None:
    check_group_id("g" * GROUP_ID_BYTES)


@pytest.mark.parametrize("group_id", ["", "g" * (GROUP_ID_BYTES + 1), "é" * (GROUP_ID_BYTES // 2 + 1)])
def test_empty_or_long_group_id_is_rejected(group_id: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_group_id(group_id, code=ErrorCode.INVALID_GROUP_ID)
    assert caught.value.code is ErrorCode.INVALID_GROUP_ID
