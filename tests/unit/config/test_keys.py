"""Properties: parsing, rendering and errors, on a table with one property of each type; lists."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.config.broker import BROKER_KEYS
from sharebroker_server.config.keys import (
    INT_MAX,
    LONG_MAX,
    ValueType,
    appended,
    boolean,
    choice,
    integer,
    long_from,
    parse_all,
    render,
    several,
    subtracted,
    table,
    text,
)
from sharebroker_server.config.topic import TOPIC_KEYS


@dataclass(frozen=True)
class Table:
    some_count: int = integer(3, 1, 10, "A count.")
    some_size: int = long_from(3, 0, "A size.")
    is_on: bool = boolean(True, "A switch.")
    mode: str = choice("a", ("a", "b"), "A mode.")
    label: str = text("", "A label.")
    parts: str = several("x", ("x", "y"), "A list.")


KEYS = table(Table)


def test_names_have_dots_and_types_follow_the_bounds() -> None:
    assert [(key.name, key.type) for key in KEYS.values()] == [
        ("some.count", ValueType.INT),
        ("some.size", ValueType.LONG),
        ("is.on", ValueType.BOOLEAN),
        ("mode", ValueType.STRING),
        ("label", ValueType.STRING),
        ("parts", ValueType.LIST),
    ]
    assert INT_MAX < LONG_MAX


def test_parsed_values_are_keyed_by_field_name() -> None:
    given = {"some.count": " 7 ", "is.on": "FALSE", "mode": "b", "label": " t ", "parts": "y, x"}
    parsed = {"some_count": 7, "is_on": False, "mode": "b", "label": "t", "parts": "y,x"}
    assert parse_all(KEYS, given, "property") == parsed


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("some.count", "0", "an integer from 1 to 10"),
        ("some.count", "x", "an integer from 1 to 10"),
        ("mode", "c", "one of a, b"),
        ("parts", "x,z", "one of x, y"),
        ("parts", "", "one of x, y"),
    ],
)
def test_invalid_value_is_rejected_with_the_allowed_ones(name: str, value: str, expected: str) -> None:
    with pytest.raises(KafkaError, match=f"expected {expected}") as caught:
        KEYS[name].parse(value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.metadata["config"] == name


def test_unknown_property_is_rejected_with_a_similar_name() -> None:
    with pytest.raises(KafkaError, match=r"Unknown property: some\.cuont; did you mean some\.count\?"):
        parse_all(KEYS, {"some.cuont": "1"}, "property")


def test_rendered_value_can_be_parsed() -> None:
    for key in KEYS.values():
        assert key.parse(render(key.default)) == key.default


REPLICAS = TOPIC_KEYS["leader.replication.throttled.replicas"]
POLICY = TOPIC_KEYS["cleanup.policy"]


def test_parts_are_appended_once() -> None:
    assert appended(REPLICAS, "", "0:1") == "0:1"
    assert appended(REPLICAS, "0:1,1:2", "1:2, 2:3") == "0:1,1:2,2:3"


def test_parts_are_subtracted() -> None:
    assert subtracted(REPLICAS, "0:1,1:2", "0:1,5:5") == "1:2"
    assert subtracted(REPLICAS, "0:1", "0:1") == ""


@pytest.mark.parametrize("value", ["yes", "", "1"])
def test_an_invalid_boolean_is_rejected_with_the_text_of_kafka(value: str) -> None:
    with pytest.raises(KafkaError) as caught:
        KEYS["is.on"].parse(value)
    expected = "Expected value to be either true or false"
    assert caught.value.message == f"Invalid value {value} for configuration is.on: {expected}"


@pytest.mark.parametrize(
    ("name", "value", "normal"),
    [("is.on", " TRUE ", "true"), ("some.count", " 5 ", "5"), ("mode", " a", "a")],
)
def test_stored_values_have_a_normal_form(name: str, value: str, normal: str) -> None:
    assert KEYS[name].normal(value) == normal


@pytest.mark.parametrize("change", [appended, subtracted])
def test_only_lists_support_append_and_subtract(change: object) -> None:
    with pytest.raises(KafkaError, match=r"key retention\.ms because its type is not LIST") as caught:
        change(TOPIC_KEYS["retention.ms"], "1", "2")  # type: ignore[operator]  # both are functions
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_lists_are_read() -> None:
    assert (POLICY.type, REPLICAS.type) == (ValueType.LIST, ValueType.LIST)
    assert REPLICAS.parse(" 0:1 , 1:2 ") == "0:1,1:2"
    assert REPLICAS.parse("") == ""
    assert POLICY.parse("delete,delete") == "delete,delete"


def test_only_a_list_with_an_empty_default_may_be_empty() -> None:
    assert BROKER_KEYS["sasl.enabled.mechanisms"].parse("") == ""
    assert BROKER_KEYS["sasl.enabled.mechanisms"].parse("SCRAM-SHA-256,PLAIN") == "SCRAM-SHA-256,PLAIN"
    with pytest.raises(KafkaError, match="SCRAM-SHA-512"):
        BROKER_KEYS["sasl.enabled.mechanisms"].parse("GSSAPI")


@pytest.mark.parametrize("text", ["", "compact", "delete,compact", "delete,"])
def test_invalid_items_are_rejected(text: str) -> None:
    with pytest.raises(KafkaError, match="expected one of delete"):
        POLICY.parse(text)
