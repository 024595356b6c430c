"""Metrics of the process."""

from __future__ import annotations

from sharebroker_server.telemetry import process
from sharebroker_server.telemetry.process import LoopLag, ProcessCost
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
