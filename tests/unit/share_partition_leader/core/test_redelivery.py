"""Redelivery: the records of one delivery, and the isolation of poison records."""

from __future__ import annotations

import pytest

from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    LIMITED,
    REJECT,
    RELEASE,
    ack,
    acks,
    fetch,
    offsets,
    opened,
    picture,
    ranges,
)


@pytest.mark.parametrize(
    ("back", "log", "most", "expected"),
    [
        pytest.param("0-9", "0-9 10-19", 500, "0-9 x2", id="a whole batch"),
        pytest.param("0-19", "0-9 10-19", 500, "0-9 x2, 10-19 x2", id="batches keep their identity"),
        pytest.param("0-19", "0-9 10-19", 5, "0-9 x2", id="a soft limit acquires a whole batch"),
        pytest.param("0-19", "0-9 10-19", 10, "0-9 x2", id="and stops after it"),
        pytest.param(
            "0-19", "0-9 10-19", 11, "0-9 x2, 10-19 x2", id="one more record acquires the next batch"
        ),
        pytest.param("3", "0-9", 500, "3 x2", id="one record"),
        pytest.param("3-4 7", "0-9", 500, "3-4 x2, 7 x2", id="parts"),
        pytest.param("3 4 5", "0-9", 500, "3-5 x2", id="released singly, acquired as one range"),
        pytest.param("8-12", "0-9 10-19", 500, "8-9 x2, 10-12 x2", id="across batches"),
        pytest.param("15", "10-19", 500, "15 x2", id="only its log batch was read"),
        pytest.param("5 15", "0-9", 500, "5 x2", id="up to the last read offset"),
    ],
)
def test_released_records_are_acquired_again(back: str, log: str, most: int, expected: str) -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    for part in back.split():
        ack(share, part, RELEASE)
    assert ranges(fetch(share, log, most=most)) == expected


@pytest.mark.parametrize(("log", "expected"), [("0-9", "5-9 x2"), ("0-9 10-19", "5-19 x2")])
def test_partly_read_unit_is_acquired_up_to_the_read_offset(log: str, expected: str) -> None:
    share = opened()
    fetch(share, "0-9 10-19")
    ack(share, "5-19", RELEASE)
    assert ranges(fetch(share, log)) == expected


@pytest.mark.parametrize(
    ("back", "most", "expected"),
    [
        pytest.param("0-19", 5, "0-4 x2", id="cut inside a batch"),
        pytest.param("0-19", 10, "0-9 x2", id="exactly a batch"),
        pytest.param("0-19", 15, "0-9 x2, 10-14 x2", id="cut inside the second"),
        pytest.param("3-4 7 12-13", 4, "3-4 x2, 7 x2, 12 x2", id="parts of batches"),
        pytest.param("3 5 7 9", 2, "3 x2, 5 x2", id="single records"),
    ],
)
def test_strict_limit_splits_released_batches(back: str, most: int, expected: str) -> None:
    share = opened()
    fetch(share, "0-9 10-19", size=10)
    for part in back.split():
        ack(share, part, RELEASE)
    assert ranges(fetch(share, "0-9 10-19", most=most, mode=LIMITED)) == expected


def test_different_delivery_counts_make_separate_ranges() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "0-4", RELEASE)
    fetch(share, "0-9")
    ack(share, "0-9", RELEASE)
    assert ranges(fetch(share, "0-9")) == "0-4 x3, 5-9 x2"


@pytest.mark.parametrize(("kind", "gone"), [(ACCEPT, True), (REJECT, True), (RELEASE, False)])
def test_only_released_records_are_redelivered(kind: int, gone: bool) -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "5", kind)
    assert (fetch(share, "0-9") == []) is gone


def test_next_fetch_offset_is_the_first_released_record() -> None:
    share = opened()
    fetch(share, "0-29")
    assert share.next_fetch_offset() == 30
    ack(share, "20", RELEASE)
    assert share.next_fetch_offset() == 20
    ack(share, "10", RELEASE)
    assert share.next_fetch_offset() == 10
    fetch(share, "0-29")
    assert share.next_fetch_offset() == 30


def test_records_with_a_pending_release_are_not_fetchable() -> None:
    share = opened()
    fetch(share, "0-9")
    released = share.acknowledge("m1", acks("3-5", RELEASE), 0.0)
    assert released is not None
    assert share.next_fetch_offset() == 10
    assert fetch(share, "0-9 10-19", most=1) != []
    assert picture(share) == "0-19 acquired 1"
    assert share.complete([released]).fetchable
    assert share.next_fetch_offset() == 3


# --- throttling: from half the delivery limit on, failing records are acquired in smaller portions


def settings(limit: int) -> SharePartitionSettings:
    return SharePartitionSettings(delivery_count_limit=limit)


@pytest.mark.parametrize(
    ("limit", "expected"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (7, 4), (9, 5), (10, 5), (25, 13)]
)
def test_throttling_starts_at_half_the_delivery_limit(limit: int, expected: int) -> None:
    assert settings(limit).throttle_limit == expected


@pytest.mark.parametrize(
    ("limit", "count", "size", "portion"),
    [
        (5, 1, 100, 100),
        (5, 2, 100, 100),
        (5, 3, 100, 50),
        (5, 4, 100, 1),
        (5, 3, 1, 1),
        (5, 3, 2, 1),
        (5, 3, 3, 1),
        (6, 3, 500, 250),
        (6, 4, 500, 125),
        (6, 5, 500, 1),
        (10, 4, 512, 512),
        (10, 5, 512, 256),
        (10, 6, 512, 128),
        (10, 7, 512, 64),
        (10, 8, 512, 32),
        (10, 9, 512, 1),
        (10, 8, 10, 1),
        (4, 2, 100, 50),
        (4, 3, 100, 1),
        (3, 1, 100, 100),
        (3, 2, 100, 1),
        (2, 1, 100, 100),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["loaded", "loaded in two runs"])
def test_portions_shrink_with_every_failure(
    limit: int, count: int, size: int, portion: int, whole: bool
) -> None:
    share = opened(stored=f"0-{size - 1} available {count}", settings=settings(limit))
    if not whole:
        share.in_flight.split_at(0, 0, 0)
    acquired = fetch(share, [(0, size - 1)], most=1000)
    assert ranges(acquired) == (f"0-{portion - 1} x{count + 1}" if portion > 1 else f"0 x{count + 1}")


@pytest.mark.parametrize(("most", "expected"), [(10, 10), (50, 50), (80, 50)])
def test_a_strict_limit_holds_for_throttled_records(most: int, expected: int) -> None:
    share = opened(stored="0-99 available 3")
    assert len(offsets(fetch(share, "0-99", most=most, mode=LIMITED))) == expected


def test_throttled_records_are_acquired_without_new_ones() -> None:
    share = opened(stored="0-9 available 3")
    assert ranges(fetch(share, "0-9 10-19")) == "0-4 x4"
    assert ranges(fetch(share, "0-9 10-19")) == "5-9 x4"
    assert ranges(fetch(share, "10-19")) == "10-19 x1"


def test_a_portion_skips_records_that_are_not_available() -> None:
    share = opened(stored="0-9 available 2")
    fetch(share, "0-9")
    ack(share, "3")
    ack(share, "0-2", RELEASE)
    ack(share, "4-9", RELEASE)
    assert ranges(fetch(share, "0-9")) == "0-2 x4, 4-5 x4"


def test_the_rest_of_a_throttled_batch_may_be_smaller() -> None:
    share = opened(stored="0-9 available 3")
    fetch(share, "0-9")
    ack(share, "2-4")
    fetch(share, "0-9")
    ack(share, "6-7", RELEASE)
    assert ranges(fetch(share, "0-9 10-19")) == "6 x5"
    fresh = opened(stored="0-9 available 3")
    assert ranges(fetch(fresh, "0-2")) == "0-2 x4"


def test_throttled_records_are_never_added_to_others() -> None:
    share = opened(stored="0-9 available 1, 10-19 available 3")
    assert ranges(fetch(share, "0-9 10-19 20-29")) == "0-9 x2"
    assert ranges(fetch(share, "10-19 20-29")) == "10-14 x4"


def test_record_at_its_last_delivery_ends_the_portion_before_it() -> None:
    share = opened()
    fetch(share, "0-9")
    for _ in range(3):
        ack(share, "4-9", RELEASE)
        while fetch(share, "0-9"):
            pass
    # 0-3 were delivered once; 4-9 four times, one below the delivery limit.
    ack(share, "0-9", RELEASE)
    assert ranges(fetch(share, "0-9")) == "0-3 x2"
    assert [ranges(fetch(share, "0-9")) for _ in range(2)] == ["4 x5", "5 x5"]


def test_throttled_record_waits_if_the_records_before_it_suffice() -> None:
    share = opened(settings=settings(10))
    fetch(share, "0-9")
    for _ in range(4):
        ack(share, "8-9", RELEASE)
        fetch(share, "0-9")
    ack(share, "0-9", RELEASE)
    # 8 and 9 failed five times: their batch's portion is 5, which the records before them use up.
    assert ranges(fetch(share, "0-9")) == "0-7 x2"
    assert ranges(fetch(share, "0-9")) == "8-9 x6"


def test_throttled_records_share_the_portion_with_few_earlier_ones() -> None:
    share = opened(settings=settings(10))
    fetch(share, "0-9")
    for _ in range(4):
        ack(share, "2-9", RELEASE)
        fetch(share, "0-9")
    ack(share, "0-9", RELEASE)
    assert ranges(fetch(share, "0-9")) == "0-1 x2, 2-4 x6"


def test_a_batch_whose_failed_records_are_still_held_is_not_throttled() -> None:
    share = opened()
    fetch(share, "0-9")
    for _ in range(2):
        ack(share, "0-4", RELEASE)
        fetch(share, "0-9")
    pending = share.acknowledge("m1", acks("0-4", RELEASE), 0.0)
    ack(share, "5-9", RELEASE)
    assert pending is not None
    assert ranges(fetch(share, "0-9 10-19")) == "5-9 x2, 10-19 x1"


def test_delivery_limit_of_2_throttles_nothing() -> None:
    share = opened(settings=settings(2))
    fetch(share, "0-99")
    ack(share, "0-99", RELEASE)
    assert ranges(fetch(share, "0-99")) == "0-99 x2"
    ack(share, "0-99", RELEASE)
    assert (share.start_offset, share.in_flight_count) == (100, 0)


def test_limit_lowered_below_the_count_permits_one_isolated_delivery() -> None:
    share = opened(stored="0-9 available 4")
    share.settings = settings(3)
    assert ranges(fetch(share, "0-9")) == "0 x5"
    ack(share, "0", RELEASE)
    assert share.start_offset == 1


@pytest.mark.parametrize(("limit", "third"), [(3, "archived"), (5, "available")])
def test_release_uses_the_current_delivery_limit(limit: int, third: str) -> None:
    share = opened()
    fetch(share, "0-9")
    for _ in range(2):
        ack(share, "5", RELEASE)
        fetch(share, "0-9")
    share.settings = settings(limit)
    ack(share, "5", RELEASE)
    assert picture(share) == f"0-4 acquired 1, 5 {third} 3, 6-9 acquired 1"
