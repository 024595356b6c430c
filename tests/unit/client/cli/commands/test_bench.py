"""The figures of a measurement."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker.cli.commands.bench import percentiles, throughput


def test_throughput_counts_records_and_megabytes() -> None:
    assert throughput(1_000_000, 100, 2.0) == {
        "records": 1_000_000,
        "seconds": 2.0,
        "records_per_s": 500_000,
        "mb_per_s": 50.0,
    }
    assert throughput(0, 100, 0.0)["records_per_s"] == 0


def test_percentiles_are_by_nearest_rank() -> None:
    assert percentiles([0.001 * number for number in range(100, 0, -1)]) == {
        "p50_ms": 50.0,
        "p95_ms": 95.0,
        "p99_ms": 99.0,
        "max_ms": 100.0,
    }


@given(st.lists(st.floats(0, 100), min_size=1))
def test_percentiles_ascend_to_the_maximum(times: list[float]) -> None:
    found = list(percentiles(times).values())
    assert found == sorted(found)
    assert found[-1] == round(max(times) * 1000, 3)
