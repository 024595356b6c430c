"""Initialisation from what the share coordinator has."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import StateBatch
from sharebroker_server.share_partition_leader.core.record_states import RecordStates
from sharebroker_server.share_partition_leader.core.values import (
    AcquireRequest,
    LoadedState,
    SharePartitionSettings,
)
from tests.unit.share_partition_leader.core.support import (
    ACQUIRED,
    AVAILABLE,
    LIMITED,
    ack,
    check,
    fetch,
    log_of,
    opened,
    picture,
    ranges,
    show,
)


@pytest.mark.parametrize(
    ("start", "stored", "window", "pointers", "complete"),
    [
        pytest.param(10, "", "", (10, 10, 10), 0, id="nothing in flight"),
        pytest.param(0, "0-9 available 1", "0-9 available 1", (0, 9, 0), 0, id="available"),
        pytest.param(0, "0-9 acknowledged 1", "", (10, 10, 10), 0, id="all acknowledged"),
        pytest.param(0, "0-9 archived 5", "", (10, 10, 10), 0, id="all archived"),
        pytest.param(
            0, "0-4 acknowledged 1, 5-9 archived 5", "", (10, 10, 10), 0, id="a finished front of two batches"
        ),
        pytest.param(
            0, "0-4 acknowledged 1, 5-9 available 2", "5-9 available 2", (5, 9, 5), 0, id="finished front"
        ),
        pytest.param(
            0,
            "0-4 available 1, 5-9 acknowledged 1",
            "0-4 available 1, 5-9 acknowledged 1",
            (0, 9, 0),
            5,
            id="finished tail",
        ),
        pytest.param(
            0, "5-9 acknowledged 1", "0-4 available 0, 5-9 acknowledged 1", (0, 9, 0), 5, id="hole in front"
        ),
        pytest.param(
            0,
            "0-4 available 1, 8-9 archived 2",
            "0-4 available 1, 5-7 available 0, 8-9 archived 2",
            (0, 9, 0),
            2,
            id="hole between",
        ),
        pytest.param(
            0,
            "0-4 acknowledged 1, 8 available 1",
            "5-7 available 0, 8 available 1",
            (5, 8, 5),
            0,
            id="to hole",
        ),
        pytest.param(
            100,
            "110 available 1, 119 acknowledged 1",
            "100-109 available 0, 110 available 1, 111-118 available 0, 119 acknowledged 1",
            (100, 119, 100),
            1,
            id="two holes",
        ),
    ],
)
def test_the_window_after_loading(
    start: int, stored: str, window: str, pointers: tuple[int, int, int], complete: int
) -> None:
    share = opened(start, stored)
    check(share)
    assert picture(share) == window
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == pointers
    assert share.delivery_complete_count == complete
    assert share.next_deadline() is None


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param((StateBatch(0, 9, AVAILABLE, 1),), id="before the start"),
        pytest.param((StateBatch(15, 14, AVAILABLE, 1),), id="last before first"),
        pytest.param((StateBatch(10, 19, ACQUIRED, 1),), id="acquired is never persisted"),
        pytest.param((StateBatch(10, 19, AVAILABLE, 1), StateBatch(15, 20, AVAILABLE, 2)), id="overlap"),
        pytest.param((StateBatch(20, 29, AVAILABLE, 1), StateBatch(10, 15, AVAILABLE, 1)), id="descending"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(stored: tuple[StateBatch, ...]) -> None:
    with pytest.raises(KafkaError) as refused:
        RecordStates(SharePartitionSettings(), LoadedState(0, 1, 10, stored))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_loaded_counts_go_on() -> None:
    share = opened(stored="0-4 available 2, 5-9 available 1")
    assert ranges(fetch(share, "0-9")) == "0-4 x3, 5-9 x2"


def test_nobody_holds_a_loaded_record() -> None:
    share = opened(stored="0-9 available 1")
    with pytest.raises(KafkaError) as refused:
        ack(share, "0-9")
    assert refused.value.metadata["reason"] == "lock_lost"


# --- the gap window: what was in flight for the first time when the last leader stopped (KAFKA-18494)


@pytest.mark.parametrize(
    ("stored", "log", "most", "size", "expected"),
    [
        pytest.param("10-19 available 1", "0-19", 500, 500, "0-9 x1, 10-19 x2", id="one log batch"),
        pytest.param("10-19 available 1", "0-9 10-19", 10, 500, "0-9 x1", id="limit ends at the hole's end"),
        pytest.param("10-19 available 1", "0-19", 1, 500, "0-9 x1", id="clipped to the hole"),
        pytest.param("10-19 available 1", "0-4 5-9 10-19", 3, 500, "0-4 x1", id="soft limit on log batches"),
        pytest.param("10-19 available 1", "0-4 5-9 10-19", 500, 5, "0-4 x1, 5-9 x1, 10-19 x2", id="units"),
        pytest.param("10-19 acknowledged 1", "0-19 20-29", 500, 500, "0-9 x1, 20-29 x1", id="then new ones"),
        pytest.param(
            "10-19 acknowledged 1, 30-39 available 1",
            "0-39",
            500,
            500,
            "0-9 x1, 20-29 x1, 30-39 x2",
            id="every hole in order",
        ),
        pytest.param("10-19 available 1", "0-4", 500, 500, "0-4 x1", id="as far as was read"),
    ],
)
def test_holes_are_acquired_as_new(stored: str, log: str, most: int, size: int, expected: str) -> None:
    share = opened(stored=stored)
    assert ranges(fetch(share, log, most=most, size=size)) == expected


def test_a_hole_is_acquired_piece_by_piece() -> None:
    share = opened(stored="10-19 acknowledged 1")
    log = "0-1 2-3 4-5 6-7 8-9 10-19 20-29"
    taken = [ranges(fetch(share, log, most=4)) for _ in range(5)]
    assert taken == ["0-3 x1", "4-7 x1", "8-9 x1, 20-29 x1", "", ""]


def test_a_strict_limit_leaves_the_rest_of_a_hole() -> None:
    share = opened(stored="10-19 acknowledged 1")
    taken = [ranges(fetch(share, "0-9 10-19", most=4, mode=LIMITED)) for _ in range(4)]
    assert taken == ["0-3 x1", "4-7 x1", "8-9 x1", ""]


def test_the_spso_stops_at_a_hole() -> None:
    share = opened(stored="0-4 available 1, 10-19 acknowledged 1")
    fetch(share, "0-4")
    assert show(ack(share, "0-4")) == "5:"
    assert picture(share) == "5-9 available 0, 10-19 acknowledged 1"


def test_a_filled_hole_leaves_the_end_where_it_was() -> None:
    share = opened(stored="10-19 available 1")
    fetch(share, "0-9")
    assert (share.end_offset, share.in_flight_count) == (19, 20)
    assert share.next_fetch_offset() == 10


def test_offsets_of_a_hole_that_compaction_took_are_passed() -> None:
    share = opened(stored="10-19 available 1")
    assert ranges(fetch(share, "5-9 10-19")) == "5-9 x1, 10-19 x2"
    assert share.start_offset == 5


def test_a_hole_that_the_log_no_longer_has_is_passed() -> None:
    share = opened(stored="10-19 available 1")
    assert ranges(fetch(share, "10-19")) == "10-19 x2"
    assert share.start_offset == 10


def test_a_log_gap_inside_a_hole_is_acquired_like_any_other() -> None:
    share = opened(stored="20-29 available 1")
    assert ranges(fetch(share, "0-4 15-19 20-29", most=8)) == "0-4 x1, 5-7 x1"
    assert ranges(fetch(share, "15-19 20-29", most=5)) == "15-19 x1"
    assert picture(share) == "0-7 acquired 1, 8-14 archived 0, 15-19 acquired 1, 20-29 available 1"


def test_a_hole_may_be_entered_in_the_middle() -> None:
    share = opened(stored="20-29 available 1")
    acquired = share.acquire(AcquireRequest("m1", 500, 500), 10, log_of("10-19"), 0.0)
    check(share)
    assert ranges(acquired) == "10-19 x1"
    assert share.next_fetch_offset() == 0


def test_a_full_window_after_loading_still_hands_out_its_holes() -> None:
    settings = SharePartitionSettings(max_record_locks=20)
    share = opened(0, "10-19 acknowledged 1", settings)
    assert share.acquirable_offset() is not None
    assert ranges(fetch(share, "0-9 10-19 20-29")) == "0-9 x1"
    assert share.acquirable_offset() is None
