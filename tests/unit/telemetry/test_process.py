"""Metrics of the process."""

from __future__ import annotations

import pytest

from sharebroker_server.telemetry import process
from sharebroker_server.telemetry.process import Appends, LoopLag, ProcessCost
from tests.testkit.waiting import eventually


def test_cost_of_this_process_is_plausible() -> None:
    values = {family.name: next(iter(family.samples)).value for family in ProcessCost().families()}
    assert values["process_resident_memory_bytes"] > 1 << 20
    assert 0 < values["process_open_fds"] <= values["process_max_fds"]
    assert values["process_cpu_seconds_total"] > 0
    assert values["process_start_time_seconds"] > 1e9
    assert process.release()


async def test_lag_is_sampled_until_stop() -> None:
    lag = LoopLag()
    lag.start()
    await eventually(lambda: sum(lag.late.buckets))
    lag.stop()
    (family,) = lag.families()
    assert family.name == "sharebroker_event_loop_lag_seconds"


def test_appends_and_failures_are_counted_by_kind() -> None:
    appends = Appends()
    with appends.of("partition").timed(3, 100):
        pass
    with pytest.raises(OSError, match="lost"), appends.of("partition").timed(1, 7):
        raise OSError("lost")
    families = {family.name: list(family.samples) for family in appends.families()}
    ((_, size, _),) = families["sharebroker_log_append_bytes_total"]
    assert size == 100
    ((labels, failures, _),) = families["sharebroker_log_append_failures_total"]
    assert (labels, failures) == (("log", "partition", "error", "OSError"), 1)
    assert [sample.value for sample in families["sharebroker_log_append_records"]][-2:] == [3, 1]
