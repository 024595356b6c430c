"""Values as Arrow columns: JSON and Arrow streams, and values that cannot be decoded."""

from __future__ import annotations

from tests.spark.tour import GOOD, JSON, TOUR, Tour

pytestmark = TOUR

REJECTED = 4


def test_invalid_json_is_rejected_with_the_reason(tour: Tour) -> None:
    rows = tour.program.value("json")
    assert rows[0] == {
        "id": 1, "name": "ada", "at": rows[0]["at"], "on": "2026-01-02", "tags": ["a"],
    }  # fmt: skip
    assert rows[2]["id"] == 3
    reasons = tour.program.value("reasons")
    assert {offset for offset, reason in enumerate(reasons) if reason is None} == GOOD
    assert [row is None for row in rows] == [offset not in GOOD - {4} for offset in range(len(JSON))]
    assert tour.program.value("raw") == [
        None if offset in GOOD or value is None else value.hex() for offset, value in enumerate(JSON)
    ]


def test_undecodable_value_is_rejected_with_its_batch(tour: Tour) -> None:
    assert tour.program.value("taken") == sorted(GOOD)
    assert {offset for offset, state in tour.rejected.items() if state == REJECTED} == set(
        range(1, len(JSON))
    ) - GOOD
    assert "The value at offset 1 of" in tour.program.value("strict")
    assert "onMalformed=keep or reject" in tour.program.value("strict")


def test_arrow_streams_are_read(tour: Tour) -> None:
    assert tour.program.value("arrow") == [[[1, "a"], [2, None]], None, [], None, None]
    assert tour.program.value("unread") == [False, True, False, True, False]
