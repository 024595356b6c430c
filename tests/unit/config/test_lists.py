"""Properties that are lists: parts are added once, taken away, and checked like any value."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.keys import ValueType
from sharebroker_server.config.lists import appended, subtracted
from sharebroker_server.config.topic import TOPIC_KEYS

REPLICAS = TOPIC_KEYS["leader.replication.throttled.replicas"]
POLICY = TOPIC_KEYS["cleanup.policy"]


def test_parts_are_appended_once() -> None:
    assert appended(REPLICAS, "", "0:1") == "0:1"
    assert appended(REPLICAS, "0:1,1:2", "1:2, 2:3") == "0:1,1:2,2:3"


def test_parts_are_subtracted() -> None:
    assert subtracted(REPLICAS, "0:1,1:2", "0:1,5:5") == "1:2"
    assert subtracted(REPLICAS, "0:1", "0:1") == ""


@pytest.mark.parametrize("change", [appended, subtracted])
def test_only_lists_are_changed_so(change: object) -> None:
    with pytest.raises(KafkaError, match=r"retention\.ms: it is not a list") as caught:
        change(TOPIC_KEYS["retention.ms"], "1", "2")  # type: ignore[operator]  # both are functions
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_lists_are_read() -> None:
    assert (POLICY.type, REPLICAS.type) == (ValueType.LIST, ValueType.LIST)
    assert REPLICAS.parse(" 0:1 , 1:2 ") == "0:1,1:2"
    assert REPLICAS.parse("") == ""
    assert POLICY.parse("delete,delete") == "delete,delete"


@pytest.mark.parametrize("text", ["", "compact", "delete,compact", "delete,"])
def test_illegal_parts_are_refused(text: str) -> None:
    with pytest.raises(KafkaError, match="expected one of delete"):
        POLICY.parse(text)
