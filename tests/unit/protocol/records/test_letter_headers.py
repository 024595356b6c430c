"""The headers of dead letters."""

from __future__ import annotations

import pytest

from sharebroker_protocol.records.letter_headers import hops_of, last_header


@pytest.mark.parametrize(
    ("headers", "hops"),
    [
        ([], 0),
        ([("__dlq.errors.hops", b"3")], 3),
        ([("__dlq.errors.hops", b"3"), ("__dlq.errors.hops", b"4")], 4),
        ([("__dlq.errors.hops", None)], 0),
        ([("__dlq.errors.hops", b"-1")], 0),
        ([("__dlq.errors.hops", b"\xff")], 0),
        ([("__dlq.errors.hops", b"9" * 5000)], 0),
    ],
)
def test_hops_are_read_from_the_header(headers: list[tuple[str, bytes | None]], hops: int) -> None:
    assert hops_of(headers) == hops


def test_the_last_header_with_a_name_counts() -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    assert [last_header(headers, name) for name in "abc"] == [b"2", None, None]
