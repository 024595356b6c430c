"""Bounds and intervals of the coordinator runtime."""

from __future__ import annotations

import pytest

from sharebroker_server.coordinator_runtime.settings import RuntimeSettings


@pytest.mark.parametrize(
    ("failures", "pause"),
    [(0, 0.0), (1, 0.0), (2, 0.05), (3, 0.1), (4, 0.2), (6, 0.8), (7, 1.0), (10_000, 1.0)],
)
def test_pause_before_a_load_doubles_from_the_second_failure_on(failures: int, pause: float) -> None:
    assert RuntimeSettings(backoff_first=0.05, backoff_most=1.0).backoff(failures) == pytest.approx(pause)
