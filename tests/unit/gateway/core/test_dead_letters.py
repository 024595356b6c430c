"""Dead letters: parsed headers, filters, normalised reasons, summaries and page tokens."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.model import Disposition
from sharebroker_server.gateway.core.dead_letters import (
    Header,
    LetterFacts,
    LetterFilter,
    LetterRecord,
    ReadLetter,
    ScanPosition,
    Summary,
    is_copied,
    normalised,
    parse,
    redriven_headers,
)

KAFKA: list[Header] = [
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"7"),
    ("__dlq.errors.offset", b"4711"),
    ("__dlq.errors.group", b"billing"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
]
OURS: list[Header] = [
    ("__dlq.errors.disposition", b"CLIENT_REJECTED_NACK"),
    ("__dlq.errors.topic.id", b"T"),
    ("__dlq.errors.reason", b"no such account"),
    ("__dlq.errors.timestamp", b"1795000000000"),
    ("__dlq.errors.member", b"m1"),
    ("__dlq.errors.client.id", b"c1"),
    ("__dlq.errors.hops", b"2"),
    ("__dlq.errors.origin", b"first/0/1"),
    ("__dlq.errors.copy", b"full"),
]


def letter(offset: int = 0, time_ms: int = 100, **facts: Any) -> ReadLetter:
    made: dict[str, Any] = {"group_id": "billing", "topic": "orders", "partition": 7, "offset": offset}
    return ReadLetter(LetterRecord(1, offset, time_ms, None, None, ()), LetterFacts(**made | facts))


def replaced(name: str, value: bytes | None) -> list[Header]:
    return [(key, value if key.endswith(name) else old) for key, old in KAFKA]


def test_a_letter_of_kafka_is_parsed() -> None:
    message = "Offset rejected by client."
    assert parse(KAFKA) == LetterFacts("billing", "orders", 7, 4711, 5, message=message)


def test_our_headers_are_parsed() -> None:
    facts = parse([*KAFKA, *OURS, ("x", b"1"), ("__dlq.errors.group", b"another")])
    assert facts is not None
    assert facts[:4] == ("billing", "orders", 7, 4711)
    assert (facts.disposition, facts.topic_id) == (Disposition.REJECTED, "T")
    assert (facts.reason, facts.failed_ms, facts.member_id) == ("no such account", 1795000000000, "m1")
    assert (facts.client_id, facts.hops, facts.origin, facts.copy) == ("c1", 2, "first/0/1", "full")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("x", b"1")],
        KAFKA[:3],
        replaced(".group", None),
        replaced(".group", b""),
        replaced(".topic", b""),
        replaced(".partition", b"-1"),
        replaced(".partition", b"2147483648"),
        replaced(".offset", b"\xff"),
        replaced(".offset", b"9" * 19),
    ],
)
def test_other_records_are_no_letters(headers: list[Header]) -> None:
    assert parse(headers) is None


def test_invalid_details_of_a_letter_are_unknown() -> None:
    facts = parse([*replaced(".count", b"many"), ("__dlq.errors.disposition", b"?")])
    assert facts is not None
    assert (facts.delivery_count, facts.disposition, facts.failed_ms) == (0, 0, 0)
    long = parse([*replaced(".count", b"9" * 18), ("__dlq.errors.reason", b"x" * 5000)])
    assert long is not None
    assert (long.delivery_count, len(long.reason)) == (2**31 - 1, 1024)


@pytest.mark.parametrize(("reset", "hops"), [(False, b"2"), (True, b"0")])
def test_a_redriven_record_keeps_its_headers_hops_and_origin(reset: bool, hops: bytes) -> None:
    headers: list[Header] = [*KAFKA, *OURS, ("traceparent", b"00-1"), ("x", None)]
    facts = parse(headers)
    assert facts is not None
    assert redriven_headers(facts, headers, reset_hops=reset) == [
        ("traceparent", b"00-1"),
        ("x", None),
        ("__dlq.errors.hops", hops),
        ("__dlq.errors.origin", b"first/0/1"),
    ]


def test_a_redriven_record_has_its_message_id_again() -> None:
    headers: list[Header] = [*KAFKA, ("__dlq.errors.message.id", b"id")]
    facts = parse(headers)
    assert facts is not None
    assert redriven_headers(facts, headers, reset_hops=False)[0] == ("sharebroker.message.id", b"id")


def test_a_redriven_letter_of_kafka_was_a_letter_once() -> None:
    facts = parse(KAFKA)
    assert facts is not None
    assert redriven_headers(facts, KAFKA, reset_hops=False) == [
        ("__dlq.errors.hops", b"1"),
        ("__dlq.errors.origin", b"orders/7/4711"),
    ]


@pytest.mark.parametrize(
    ("copy", "value", "copied"),
    [("full", None, True), ("", b"x", True), ("", None, False), ("off", None, False), ("gone", b"x", False)],
)
def test_a_letter_states_whether_it_has_a_copy(copy: str, value: bytes | None, copied: bool) -> None:
    one = letter(copy=copy)
    assert is_copied(one._replace(record=one.record._replace(value=value))) is copied


@pytest.mark.parametrize(
    ("conditions", "selected"),
    [
        ({}, True),
        ({"group_id": "billing", "topic": "orders", "partition": 7}, True),
        ({"group_id": "b"}, False),
        ({"topic": "order"}, False),
        ({"partition": 0}, False),
        ({"disposition": Disposition.EXPIRED}, False),
        ({"disposition": Disposition.REJECTED}, True),
        ({"reason": "SUCH"}, True),
        ({"reason": "none"}, False),
        ({"from_ms": 100}, True),
        ({"from_ms": 101}, False),
        ({"before_ms": 101}, True),
        ({"before_ms": 100}, False),
    ],
)
def test_a_filter_selects_letters_that_fulfil_all_conditions(
    conditions: dict[str, Any], selected: bool
) -> None:
    one = letter(disposition=Disposition.REJECTED, reason="no such account")
    assert LetterFilter(**conditions).selects(one) is selected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("", ""),
        ("no such account", "no such account"),
        ("account 4711 of 12", "account # of #"),
        ("timeout after 1.5s at 12:30:07", "timeout after #s at #"),
        ('no user \'Ann O"\' or "Bob"', "no user '...' or '...'"),
        ("id 123e4567-e89b-12d3-a456-426614174000 twice", "id <id> twice"),
        ("at 0xDEADBEEF", "at <id>"),
        ("digest 9f86d081884c7d65", "digest <id>"),
        ("defaced facade", "defaced facade"),
        ("12345678", "#"),
        ("many\n  spaces ", "many spaces"),
        ("x" * 300, "x" * 200),
    ],
)
def test_reasons_are_normalised(reason: str, expected: str) -> None:
    assert normalised(reason) == expected


def test_a_summary_counts_letters_by_their_key() -> None:
    summary = Summary(10)
    for offset, (time_ms, reason) in enumerate([(5, "code 1"), (3, "code 2"), (9, "code 3"), (4, "other")]):
        summary.add(letter(offset, time_ms, reason=reason))
    (first, row), (second, _) = summary.rows()
    assert (first.reason, second.reason) == ("code #", "other")
    assert (row.letters, row.oldest_ms, row.newest_ms, row.example) == (3, 3, 9, (1, 0))
    assert summary.other is None


def test_letters_beyond_the_rows_are_counted_together() -> None:
    summary = Summary(2)
    for offset, reason in enumerate(["a", "b", "c", "d", "a", "b", "b"]):
        summary.add(letter(offset, offset, reason=reason))
    assert [(key.reason, row.letters) for key, row in summary.rows()] == [("b", 3), ("a", 2)]
    assert summary.other is not None
    assert (summary.other.letters, summary.other.oldest_ms, summary.other.newest_ms) == (2, 2, 3)


def test_a_token_is_a_position() -> None:
    position = ScanPosition(3, 4711, 1795000000000)
    assert ScanPosition.parsed(position.token) == position


@pytest.mark.parametrize(
    "token", ["", "1:2", "1:2:3:4", "1:2:x", "-1:2:3", "1:2:٣", "1:2:" + "9" * 19, "1" * 61]
)
def test_other_texts_are_no_tokens(token: str) -> None:
    assert ScanPosition.parsed(token) is None
