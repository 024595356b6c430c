"""Dead letters: Kafka's headers, ours, copies of records, and batches of letters."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.model import Disposition
from sharebroker_server.share_partition_leader.dead_letters.letters import (
    MAX_BATCH_BYTES,
    FailedRecord,
    Letter,
    LetterSource,
    OriginalRecord,
    build_batch,
    has_most_hops,
    make_letter,
)

SOURCE = LetterSource("billing", "orders", "T", 7)
FAILED = FailedRecord(4711, 5, Disposition.REJECTED, "no such account", 1_795_000_000_000, "m1", "c1")
NOW = 1_795_000_000_123


def texts(headers: object) -> list[tuple[str, str]]:
    return [(name, value.decode()) for name, value in headers]  # type: ignore[attr-defined]


def test_headers_of_kafka_precede_further_ones_and_copied_ones() -> None:
    original = OriginalRecord(b"k", b"v", [("traceparent", b"00-1"), ("traceparent", b"00-2"), ("x", None)])
    letter = make_letter(SOURCE, FAILED, original, copy=True)
    assert (letter.key, letter.value) == (b"k", b"v")
    assert texts(letter.headers[:-1]) == [
        ("__dlq.errors.topic", "orders"),
        ("__dlq.errors.partition", "7"),
        ("__dlq.errors.offset", "4711"),
        ("__dlq.errors.group", "billing"),
        ("__dlq.errors.delivery.count", "5"),
        ("__dlq.errors.message", "Offset rejected by client."),
        ("__dlq.errors.disposition", "CLIENT_REJECTED_NACK"),
        ("__dlq.errors.topic.id", "T"),
        ("__dlq.errors.reason", "no such account"),
        ("__dlq.errors.timestamp", "1795000000000"),
        ("__dlq.errors.member", "m1"),
        ("__dlq.errors.client.id", "c1"),
        ("__dlq.errors.hops", "1"),
        ("__dlq.errors.origin", "orders/7/4711"),
        ("__dlq.errors.copy", "full"),
        ("traceparent", "00-1"),
        ("traceparent", "00-2"),
    ]
    assert letter.headers[-1] == ("x", None)


@pytest.mark.parametrize(
    ("disposition", "message", "word"),
    [
        (Disposition.REJECTED, "Offset rejected by client.", "CLIENT_REJECTED_NACK"),
        (
            Disposition.EXHAUSTED,
            "Offset delivery count exceeded the threshold.",
            "MAX_DELIVERY_ATTEMPTS_REACHED",
        ),
        (Disposition.EXPIRED, "Offset exceeded the maximum age.", "RECORD_EXPIRED"),
        (0, "Offset rejected by client.", "CLIENT_REJECTED_NACK"),
    ],
)
def test_each_disposition_has_its_texts(disposition: int, message: str, word: str) -> None:
    letter = make_letter(SOURCE, FailedRecord(1, 2, disposition), None, copy=False)
    assert texts(letter.headers)[5:7] == [
        ("__dlq.errors.message", message),
        ("__dlq.errors.disposition", word),
    ]


def test_unknown_values_have_no_header() -> None:
    letter = make_letter(SOURCE, FailedRecord(1, 2, Disposition.REJECTED), None, copy=True)
    assert [name for name, _ in texts(letter.headers)][6:] == [
        "__dlq.errors.disposition",
        "__dlq.errors.topic.id",
        "__dlq.errors.hops",
        "__dlq.errors.origin",
        "__dlq.errors.copy",
    ]


@pytest.mark.parametrize(
    ("original", "copy", "outcome"),
    [(None, False, "off"), (OriginalRecord(b"k", b"v", [("a", b"1")]), False, "off"), (None, True, "gone")],
)
def test_letters_without_a_copy_state_why(original: OriginalRecord | None, copy: bool, outcome: str) -> None:
    letter = make_letter(SOURCE, FAILED, original, copy=copy)
    assert (letter.key, letter.value) == (None, None)
    assert texts(letter.headers)[-1] == ("__dlq.errors.copy", outcome)


def test_a_letter_that_fails_again_keeps_its_origin_and_counts_hops() -> None:
    first = make_letter(SOURCE, FAILED, OriginalRecord(b"k", None, [("x", b"1")]), copy=True)
    again = make_letter(
        LetterSource("g2", "dlq.billing", "D", 0),
        FAILED._replace(offset=3),
        OriginalRecord(first.key, first.value, first.headers),
        copy=True,
    )
    found = dict(texts(again.headers))
    assert found["__dlq.errors.topic"] == "dlq.billing"
    assert found["__dlq.errors.topic.id"] == "D"
    assert (found["__dlq.errors.hops"], found["__dlq.errors.origin"]) == ("2", "orders/7/4711")
    assert [name for name, _ in texts(again.headers)].count("__dlq.errors.topic") == 1
    assert again.headers[-1] == ("x", b"1")


@pytest.mark.parametrize("copy", [True, False])
def test_a_letter_has_no_message_id_of_its_own(copy: bool) -> None:
    original = OriginalRecord(b"k", b"v", [("sharebroker.message.id", b"id"), ("x", b"1")])
    first = make_letter(SOURCE, FAILED, original, copy=copy)
    again = make_letter(SOURCE, FAILED, OriginalRecord(b"k", b"v", first.headers), copy=copy)
    for letter in (first, again):
        for headers in (letter.headers, letter.bare_headers):
            found = texts(headers)
            assert found.count(("__dlq.errors.message.id", "id")) == 1
            assert "sharebroker.message.id" not in dict(found)


def letter(size: int) -> Letter:
    return make_letter(SOURCE, FAILED, OriginalRecord(None, b"v" * size), copy=True)


def test_a_batch_is_plain_and_has_the_time_of_the_write() -> None:
    data, count = build_batch([letter(5), letter(0)], NOW, 1_000_000)
    decoded = DefaultRecordBatch(data)
    assert count == 2
    assert (decoded.compression_type, decoded.producer_id, decoded.timestamp_type) == (0, -1, 0)
    assert [(record.timestamp, record.value) for record in decoded] == [(NOW, b"v" * 5), (NOW, b"")]


def test_a_batch_ends_at_the_limit() -> None:
    for limit, size in ((10_000, 1_000), (50_000_000, 300_000)):
        data, count = build_batch([letter(size)] * 20, NOW, limit)
        assert len(data) <= min(limit, MAX_BATCH_BYTES)
        assert len(data) + size + 600 > min(limit, MAX_BATCH_BYTES)
        assert 0 < count < 20


def test_a_large_letter_has_a_batch_of_its_own() -> None:
    data, count = build_batch([letter(3_000_000), letter(1)], NOW, 4_000_000)
    assert (count, len(data) > 3_000_000) == (1, True)


def test_a_letter_above_the_limit_of_the_topic_has_headers_only() -> None:
    alone = len(build_batch([letter(1_000)], NOW, 1_000_000)[0])
    for limit, outcome in ((alone, "full"), (alone - 1, "too_large"), (10, "too_large")):
        data, count = build_batch([letter(1_000)], NOW, limit)
        (record,) = list(DefaultRecordBatch(data))
        assert count == 1
        assert dict(record.headers)["__dlq.errors.copy"] == outcome.encode()
        assert (record.value is None) == (outcome == "too_large")


@pytest.mark.parametrize(("hops", "most"), [("2", False), ("3", True), ("4", True)])
def test_the_letters_of_a_record_are_bounded(hops: str, most: bool) -> None:
    assert has_most_hops([("__dlq.errors.hops", hops.encode())]) is most
