"""Slices of a program on two servers: their order, and the arithmetic of their figures."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.perf import slices
from tests.perf.slices import in_slices, joined


def test_a_rate_is_records_over_summed_seconds() -> None:
    # 100 records in 1 s and 300 in 1 s; then 100 records in 1 s and 100 in 3 s
    assert joined([{"records": 100, "rate": 100}, {"records": 300, "rate": 300}])["rate"] == pytest.approx(
        200
    )
    assert joined([{"records": 100, "rate": 100}, {"records": 100, "rate": 100 / 3}])[
        "rate"
    ] == pytest.approx(50)


def test_cpu_is_summed_over_summed_records() -> None:
    # 100 records with 10 µs each and 300 with 2 µs each are 1,600 µs for 400 records
    figures = joined([{"records": 100, "server_cpu": 10}, {"records": 300, "server_cpu": 2}])
    assert figures == {"records": 400, "server_cpu": 4}


def test_slices_without_records_count_alike() -> None:
    assert joined([{"p50": 1.0, "write": 2.0}, {"p50": 3.0, "write": 4.0}]) == {"p50": 2.0, "write": 3.0}
    assert joined([{"rate": 100}, {"rate": 100 / 3}])["rate"] == pytest.approx(50)


def test_a_figure_that_a_slice_lacks_is_left_out() -> None:
    assert joined([{"records": 1, "p50": 1.0}, {"records": 1}]) == {"records": 2}


def test_a_slice_in_which_nothing_was_measured_has_no_rate() -> None:
    assert joined([{"records": 0, "rate": 0, "server_cpu": 0}] * 2)["rate"] == 0
    assert joined([{"records": 10, "rate": 5}, {"records": 0, "rate": 0}])["rate"] == 0


@dataclass
class Drifting:
    """A server that needs 10 s for 1,000 records, on a machine that drifts with each slice."""

    slowness: float
    drift: float
    order: list[tuple[float, int]]

    def run(self, _: str, number: int) -> dict[str, float]:
        self.order.append((self.slowness, number))
        seconds = 10 * self.slowness * (1 + self.drift * len(self.order))
        return {"records": 1000, "rate": 1000 / seconds, "server_cpu": seconds}


@pytest.mark.parametrize("drift", [0.0, 0.25, -0.2])
def test_a_steady_drift_of_the_machine_cancels_out(drift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "settle", lambda: None)
    order: list[tuple[float, int]] = []
    servers = {"before": Drifting(1.0, drift, order), "after": Drifting(1.1, drift, order)}
    found = in_slices(servers, "each", ("before", "after"))
    assert order == [(1.0, 0), (1.1, 0), (1.1, 1), (1.0, 1)]
    assert found["after"]["rate"] / found["before"]["rate"] == pytest.approx(1 / 1.1)
    assert found["after"]["server_cpu"] / found["before"]["server_cpu"] == pytest.approx(1.1)


def test_a_program_may_run_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "settle", lambda: None)
    order: list[tuple[float, int]] = []
    servers = {"before": Drifting(1.0, 0, order), "after": Drifting(2.0, 0, order)}
    assert in_slices(servers, "idle", ("after", "before"), 1)["after"]["records"] == 1000
    assert order == [(2.0, 0), (1.0, 0)]
