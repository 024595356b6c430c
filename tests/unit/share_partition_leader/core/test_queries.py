"""Queries of the records in flight: splitting by run, holders, and throttled records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_server.share_partition_leader.core.events import Configure, SharePartitionSettings
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import ACCEPT, RELEASE, ack, acks, done, fetch, opened


def _window() -> SteppedPartition:
    """10-19 acquired, 20-29 not in the log, 30-34 acquired, 35 available, 36-39 acquired."""
    share = opened(10)
    fetch(share, "10-19")
    fetch(share, "30-39")
    ack(share, "35", RELEASE)
    return share


@pytest.mark.parametrize(
    ("first", "last", "parts"),
    [
        pytest.param(12, 12, "12-12", id="one offset"),
        pytest.param(10, 19, "10-19", id="a run"),
        pytest.param(12, 17, "12-17", id="inside a run"),
        pytest.param(30, 39, "30-34 35-35 36-39", id="several runs"),
        pytest.param(15, 36, "15-19 20-34 35-35 36-36", id="a gap is merged with the following run"),
        pytest.param(22, 25, "22-25", id="inside a gap"),
        pytest.param(0, 9, "0-9", id="all passed"),
        pytest.param(0, 10, "0-9 10-10", id="passed up to the first"),
        pytest.param(0, 35, "0-9 10-19 20-34 35-35", id="passed and runs"),
        pytest.param(38, 60, "38-39 40-60", id="past the window"),
        pytest.param(50, 60, "50-60", id="far past the window"),
        pytest.param(0, 2**62, f"0-9 10-19 20-34 35-35 36-39 40-{2**62}", id="huge"),
    ],
)
def test_offset_ranges_are_split_by_run(first: int, last: int, parts: str) -> None:
    found = _window().in_flight.split_by_run(first, last)
    assert " ".join(f"{a}-{b}" for a, b in found) == parts


@pytest.mark.parametrize(("first", "last", "parts"), [(5, 6, [(5, 6)]), (5, 15, [(5, 9), (10, 15)])])
def test_an_empty_window_splits_only_at_its_start_offset(
    first: int, last: int, parts: list[tuple[int, int]]
) -> None:
    assert opened(10).in_flight.split_by_run(first, last) == parts


def test_member_holds_records_until_they_are_finished() -> None:
    share = opened(10)
    assert not share.in_flight.holds("m1")
    fetch(share, "10-19", member="m1")
    fetch(share, "30-39", member="m2")
    transition = share.acknowledge("m1", acks("10-19", ACCEPT), 0.0)
    assert transition is not None
    assert share.in_flight.holds("m1")  # until it is durable
    done(share, transition)
    assert not share.in_flight.holds("m1")
    ack(share, "31-39", RELEASE, member="m2")
    assert share.in_flight.holds("m2")


@pytest.mark.parametrize(
    ("stored", "isolates"),
    [
        pytest.param("", False, id="nothing in flight"),
        pytest.param("11-19 acknowledged 3", False, id="a gap in the loaded state"),
        pytest.param("10-19 available 2", False, id="below the limit"),
        pytest.param("10-19 available 3", True, id="at the limit"),
        pytest.param("10 available 1, 11-19 available 4", False, id="after other records"),
        pytest.param("10-19 acknowledged 4, 20 available 4", True, id="after finished records"),
    ],
)
def test_next_acquisition_is_throttled_at_the_limit(stored: str, isolates: bool) -> None:
    share = opened(10, stored, SharePartitionSettings(delivery_count_limit=5))
    assert share.next_is_throttled() is isolates


def test_one_record_at_the_limit_throttles_its_batch() -> None:
    share = opened(10, settings=SharePartitionSettings(delivery_count_limit=3))
    for first in (10, 11):
        fetch(share, "10-19")
        ack(share, f"{first}-19", RELEASE)
    assert share.next_is_throttled()
    share.settings = SharePartitionSettings(delivery_count_limit=5)
    assert not share.next_is_throttled()


def test_a_paused_group_acquires_nothing_until_it_is_resumed() -> None:
    share = opened(10)
    fetch(share, "10-19")
    ack(share, "10-12", RELEASE)
    settings = share.settings
    share.handle(Configure(replace(settings, paused=True)), 0.0)
    assert share.fetch_offset(10, 30) is None
    ack(share, "13-19", ACCEPT)
    assert share.handle(Configure(settings), 0.0).wake
    assert share.fetch_offset(10, 30) == 10
