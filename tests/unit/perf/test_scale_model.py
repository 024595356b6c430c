"""Bounds and sizes that follow from service demands."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.scale.model import (
    BROKER,
    CLIENT,
    COORDINATOR,
    GATEWAY,
    LEADER,
    REDIS,
    Bound,
    Idle,
    Limits,
    Load,
    brokers_for,
    forwarded,
    highest_rate,
    size_for,
    together,
)

NOTHING = Idle(0.0, 0.0)
DEMANDS = st.dictionaries(st.sampled_from([BROKER, CLIENT, REDIS]), st.floats(0.01, 100.0), min_size=1)


@pytest.mark.parametrize(
    ("processes", "cores", "bound"),
    [
        ({}, 16, Bound(500_000, BROKER)),
        ({BROKER: 3}, 16, Bound(1_000_000, CLIENT)),
        ({BROKER: 4, CLIENT: 4}, 16, Bound(2_000_000, BROKER)),
        ({BROKER: 4, CLIENT: 4}, 1, Bound(285_714, "cores")),
    ],
)
def test_the_lowest_bound_counts(processes: Mapping[str, int], cores: float, bound: Bound) -> None:
    found = highest_rate({BROKER: 2.0, CLIENT: 1.0, REDIS: 0.5}, processes, cores)
    assert (round(found.rate), found.station) == (bound.rate, bound.station)


@given(DEMANDS, st.integers(1, 8), st.floats(1.0, 64.0))
def test_no_station_is_used_more_than_wholly_at_the_bound(
    demand: dict[str, float], processes: int, cores: float
) -> None:
    rate = highest_rate(demand, dict.fromkeys(demand, processes), cores).rate
    used = {station: rate * cpu * 1e-6 for station, cpu in demand.items()}
    assert max(used.values()) <= processes * (1 + 1e-9)
    assert sum(used.values()) <= cores * (1 + 1e-9)


@given(DEMANDS, st.floats(1.0, 1e8), st.floats(0.05, 1.0))
def test_a_size_sustains_its_rate(demand: dict[str, float], rate: float, utilisation: float) -> None:
    load = Load(rate, memory=0.0, kept_seconds=0.0)
    size = size_for(load, demand, NOTHING, Limits(utilisation))
    served = {station: cpu for station, cpu in demand.items() if station != CLIENT}
    for station, cpu in served.items():
        used, processes = rate * cpu * 1e-6, size.processes[station]
        assert used <= processes * utilisation * (1 + 1e-6)
        assert processes == 1 or used > (processes - 1) * utilisation * (1 - 1e-6)


def test_each_group_finishes_every_record() -> None:
    assert together({BROKER: 1.0, REDIS: 0.5}, {BROKER: 2.0}, {BROKER: 2.0}) == {BROKER: 5.0, REDIS: 0.5}


def test_memory_may_need_more_shards_than_cpu() -> None:
    load = Load(rate=100_000, memory=110.0, kept_seconds=3600.0)
    size = size_for(load, {BROKER: 1.0, REDIS: 0.5}, NOTHING, Limits(0.6, 16e9))
    assert (size.processes[REDIS], size.bounded_by) == (3, "memory")
    assert size.partitions == 3
    assert size.redis_memory == pytest.approx(39.6e9)


def test_idle_share_partitions_use_the_leader() -> None:
    load = Load(rate=0.0, memory=0.0, kept_seconds=0.0, share_partitions=1_000_000)
    size = size_for(load, {LEADER: 1.0}, Idle(6.0, 4000.0), Limits(0.6))
    assert size.processes[LEADER] == 10
    assert size.broker_memory == pytest.approx(4e9)


SPLIT = {GATEWAY: 2.0, LEADER: 1.0, COORDINATOR: 1.0, REDIS: 0.5, CLIENT: 3.0}
LOCAL = {BROKER: 2.0, REDIS: 0.25, CLIENT: 3.0}


@pytest.mark.parametrize(
    ("brokers", "demand"),
    [
        (1, LOCAL),
        (2, {BROKER: 3.0, REDIS: 0.375, CLIENT: 3.0}),
        (4, {BROKER: 3.5, REDIS: 0.4375, CLIENT: 3.0}),
    ],
)
def test_more_brokers_forward_more_records(brokers: int, demand: Mapping[str, float]) -> None:
    assert forwarded(LOCAL, SPLIT, brokers) == pytest.approx(demand)


@given(st.floats(1.0, 1e8))
def test_enough_brokers_for_forwarded_records(rate: float) -> None:
    load = Load(rate, memory=0.0, kept_seconds=0.0)
    size = brokers_for(load, LOCAL, SPLIT, NOTHING, Limits(0.5))
    brokers = size.processes[BROKER]
    assert rate * forwarded(LOCAL, SPLIT, brokers)[BROKER] * 1e-6 <= brokers * 0.5 * (1 + 1e-6)
    assert brokers == 1 or rate * 2.0e-6 > 0.5, "one broker forwards nothing"


@pytest.mark.parametrize("utilisation", [0.0, -1.0, 1.1])
def test_a_utilisation_is_a_share(utilisation: float) -> None:
    with pytest.raises(ValueError, match="utilisation"):
        Limits(utilisation)
