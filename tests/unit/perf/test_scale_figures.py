"""The file of measured figures, and the tables of docs/scale.md that follow from it."""

from __future__ import annotations

import pytest

from tests.perf.scale import figures
from tests.perf.scale.figures import LAYOUTS, ONE, Measurements
from tests.perf.scale.measure import PROGRAMS, Rest, per_share_partition


@pytest.fixture(scope="module")
def measurements() -> Measurements:
    return Measurements.parse(figures.FILE.read_text())


def test_figures_are_stored_and_read(measurements: Measurements) -> None:
    assert list(measurements.outcomes) == list(LAYOUTS)
    assert all(list(programs) == list(PROGRAMS) for programs in measurements.outcomes.values())
    assert measurements.as_json() == figures.FILE.read_text()


def test_tables_in_the_document_match_the_figures(measurements: Measurements) -> None:
    document = figures.DOCUMENT.read_text()
    assert figures.with_tables(document, measurements) == document, "run: python -m tests.perf.scale document"


def test_a_document_without_marks_is_rejected(measurements: Measurements) -> None:
    with pytest.raises(ValueError, match="no marks for the table demands"):
        figures.with_tables("# Scale", measurements)


def test_a_single_broker_is_predicted_from_itself(measurements: Measurements) -> None:
    for program, outcome in measurements.outcomes[ONE].items():
        waiting, pipelined = measurements.predicted(ONE, program)
        assert waiting == pytest.approx(1e6 / sum(outcome.demand.values()))
        assert waiting < pipelined <= 1e6 / max(outcome.demand.values()) * (1 + 1e-9)


def test_the_cost_of_a_share_partition_is_a_slope() -> None:
    small, large = Rest(2_000, 0.05, 200e6), Rest(10_000, 0.09, 240e6)
    found = per_share_partition(small, large)
    assert found.cpu == pytest.approx(5.0)
    assert found.memory == pytest.approx(5000.0)
