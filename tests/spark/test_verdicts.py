"""Verdicts from within a job, in a real Spark against a real server."""

from __future__ import annotations

from tests.spark.tour import JUDGED, TOUR, Tour

pytestmark = TOUR


ACCEPTED, REJECTED = 2, 4


def test_released_rows_are_redelivered_and_rejected_ones_never(tour: Tour) -> None:
    first, second = tour.program.value("judged")
    # Nothing of the failed run's verdicts; its locks were renewed, not acquired again.
    assert first == [[offset, 1] for offset in range(JUDGED)]
    assert second == [[offset, 2] for offset in (0, 2, 6, 10, 11)]


def test_rows_without_a_verdict_are_accepted(tour: Tour) -> None:
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
