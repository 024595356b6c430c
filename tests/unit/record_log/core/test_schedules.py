"""The schedules of a partition: ranges, limits, and what is kept of those that have passed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.record_log.core.schedules import (
    CLOCK_TOLERANCE_MS,
    MAX_SCHEDULED,
    DeliveryLimits,
    Scheduled,
    Schedules,
    ranges_of,
)

NOW = 1_000_000


@pytest.mark.parametrize(
    ("times", "ranges"),
    [
        pytest.param([], [], id="none"),
        pytest.param([0, NOW - CLOCK_TOLERANCE_MS], [], id="in the past"),
        pytest.param([NOW - 1], [(10, 10, NOW - 1)], id="in the past, by another clock in the future"),
        pytest.param([NOW + 5] * 3, [(10, 12, NOW + 5)], id="neighbours with one time"),
        pytest.param(
            [NOW + 5, NOW + 6, 0, NOW + 6],
            [(10, 10, NOW + 5), (11, 11, NOW + 6), (13, 13, NOW + 6)],
            id="different times",
        ),
    ],
)
def test_neighbours_with_the_same_time_are_one_range(
    times: list[int], ranges: list[tuple[int, int, int]]
) -> None:
    assert ranges_of(times, 10, NOW) == ranges


def test_an_append_with_more_ranges_than_a_partition_may_have_is_rejected() -> None:
    times = [NOW + number for number in range(MAX_SCHEDULED + 1)]
    assert len(ranges_of(times[:-1], 0, NOW - 1)) == MAX_SCHEDULED
    with pytest.raises(KafkaError, match="10001 ranges") as caught:
        ranges_of(times, 0, NOW)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(
    ("delay", "retention", "metadata"),
    [
        pytest.param(100, -1, None, id="longest"),
        pytest.param(-5000, 0, None, id="in the past"),
        pytest.param(101, -1, {"delay_ms": "101", "delivery.delay.max.ms": "100"}, id="too far away"),
        pytest.param(50, 50, None, id="as long as the retention"),
        pytest.param(51, 50, {"delay_ms": "51", "retention.ms": "50"}, id="longer than the retention"),
    ],
)
def test_a_time_beyond_a_limit_is_rejected_with_both_numbers(
    delay: int, retention: int, metadata: dict[str, str] | None
) -> None:
    limits = DeliveryLimits(100, retention)
    if metadata is None:
        limits.check(NOW + delay, NOW)
        return
    with pytest.raises(KafkaError) as caught:
        limits.check(NOW + delay, NOW)
    assert caught.value.code is ErrorCode.INVALID_TIMESTAMP
    assert caught.value.metadata == metadata
    assert all(number in caught.value.message for number in metadata.values())


def test_only_times_to_come_count_for_the_limit() -> None:
    schedules = Schedules(Scheduled(offset, offset, NOW + offset) for offset in range(MAX_SCHEDULED))
    schedules.check_room(1, NOW)
    assert schedules.number_to_come(NOW) == MAX_SCHEDULED - 1
    with pytest.raises(KafkaError, match=f"{MAX_SCHEDULED - 1} scheduled records") as caught:
        schedules.check_room(2, NOW)
    assert (caught.value.code, caught.value.retry_after) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1.0)
    schedules.check_room(MAX_SCHEDULED, NOW + MAX_SCHEDULED)


def test_of_the_times_that_have_passed_the_newest_are_kept() -> None:
    schedules = Schedules(Scheduled(offset, offset, NOW - offset) for offset in range(MAX_SCHEDULED + 2))
    schedules.add([Scheduled(MAX_SCHEDULED + 2, MAX_SCHEDULED + 2, NOW + 1)])
    surplus = schedules.surplus(NOW)
    assert [each.first for each in surplus] == [MAX_SCHEDULED + 1, MAX_SCHEDULED]
    schedules.remove(surplus)
    assert not schedules.surplus(NOW)
    assert len(schedules.ranges) == MAX_SCHEDULED + 1


@given(
    times=st.lists(st.integers(NOW, NOW + 3) | st.just(0), max_size=30),
    first=st.integers(0, 30),
    size=st.integers(0, 10),
    deleted=st.integers(0, 30),
)
def test_ranges_agree_with_the_time_of_each_record(
    times: list[int], first: int, size: int, deleted: int
) -> None:
    naive = {offset: due for offset, due in enumerate(times) if due}
    schedules = Schedules()
    schedules.add(ranges_of(times, 0, NOW))
    found = {
        offset: due
        for begin, last, due in schedules.between(first, first + size)
        for offset in range(begin, last + 1)
    }
    inside = {offset: due for offset, due in naive.items() if first <= offset < first + size}
    assert inside.items() <= found.items() <= naive.items()
    assert schedules.latest_in(first, first + size - 1) == max(found.values(), default=0)
    schedules.remove(schedules.ended_before(deleted))
    assert {r.last for r in schedules.ranges} == {
        r.last for r in ranges_of(times, 0, NOW) if r.last >= deleted
    }
