"""Verdicts from within a job, and values that cannot be read, in a real Spark against a real server."""

from __future__ import annotations

from tests.spark.tour import GOOD, JSON, JUDGED, TOUR, Tour

pytestmark = TOUR
ACCEPTED, REJECTED = 2, 4


def test_released_rows_are_redelivered_and_rejected_ones_never(tour: Tour) -> None:
    first, second = tour.program.value("judged")
    # Nothing of the failed run's verdicts; its locks were renewed, not acquired again.
    assert first == [[offset, 1] for offset in range(JUDGED)]
    assert second == [[offset, 2] for offset in (0, 2, 6, 10, 11)]


def test_the_rest_is_accepted(tour: Tour) -> None:
    assert tour.judged == {0: 0} | {
        offset: REJECTED if offset % 4 == 1 else ACCEPTED for offset in range(1, JUDGED)
    }


def test_verdicts_are_counted(tour: Tour) -> None:
    counts = [one["counts"] for one in tour.program.reports if "counts" in one]
    assert counts == [[{"reject": 3}, {"release": 5}], [{}, {"release": 1}]]
    assert "the job fails" in tour.program.value("failed")


def test_invalid_verdict_is_rejected(tour: Tour) -> None:
    no_verdict, unknown, no_batch, *others = tour.program.value("unsayable")
    assert "column verdict is missing" in no_verdict
    assert "verdict is 'keep'; it must be accept, release, reject" in unknown
    assert "column batch is missing" in no_batch
    assert "option verdicts=true" in no_batch
    assert ["is not in the batch of column batch" in text for text in others] == [True, True]


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


def test_unreadable_values_are_rejected_with_their_batch(tour: Tour) -> None:
    assert tour.program.value("taken") == sorted(GOOD)
    assert {offset for offset, state in tour.rejected.items() if state == REJECTED} == set(
        range(1, len(JSON))
    ) - GOOD
    assert "The value at offset 1 of" in tour.program.value("strict")
    assert "onMalformed=keep or reject" in tour.program.value("strict")


def test_arrow_streams_are_read(tour: Tour) -> None:
    assert tour.program.value("arrow") == [[[1, "a"], [2, None]], None, [], None, None]
    assert tour.program.value("unread") == [False, True, False, True, False]
