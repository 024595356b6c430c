"""Delivery count and throttling: the scenarios of Kafka's ShareConsumerTest (4.2), without the network."""

from __future__ import annotations

from collections import Counter

from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    RELEASE,
    ack,
    check,
    done,
    fetch,
    offsets,
    opened,
    ranges,
)


def _polls(share: SteppedPartition, log: str, number: int) -> list[list[int]]:
    """Polls and releases everything, `number` times; returns the offsets of each poll."""
    polls = []
    for _ in range(number):
        got = offsets(fetch(share, log, most=10_000, size=10_000))
        polls.append(got)
        if got:
            ack(share, f"{got[0]}-{got[-1]}", RELEASE)
        check(share)
    return polls


def _sizes(polls: list[list[int]]) -> list[int]:
    return [len(poll) for poll in polls]


def _limit(limit: int) -> SteppedPartition:
    return opened(settings=SharePartitionSettings(delivery_count_limit=limit))


def test_delivery_count_when_a_session_closes() -> None:
    """testDeliveryCountDifferentBehaviorWhenClosingSessionWithExplicitAcknowledgement: 2 for both."""
    share = opened()
    fetch(share, "0 1")
    ack(share, "0", RELEASE)
    transition = share.release_member("m1")
    assert transition is not None
    done(share, transition)
    assert {a.delivery_count for a in fetch(share, "0 1", "m2")} == {2}


def test_record_is_delivered_up_to_the_delivery_limit() -> None:
    """testBehaviorOnDeliveryCountBoundary: limit 3; released: 2, closed un-acked: 3, delivered still."""
    share = _limit(3)
    assert ranges(fetch(share, "0")) == "0 x1"
    ack(share, "0", RELEASE)
    assert ranges(fetch(share, "0")) == "0 x2"
    transition = share.release_member("m1")
    assert transition is not None
    done(share, transition)
    assert ranges(fetch(share, "0", "m2")) == "0 x3"


def test_throttled_batches_shrink_to_single_records() -> None:
    """testFetchWithThrottledDelivery: 100,100,100,50,1; 1-49 singly; 50-99 as 50, then singly; then none."""
    share = opened()
    polls = _polls(share, "0-99", 3 + 1 + 50 + 1 + 50 + 1)
    assert _sizes(polls[:5]) == [100, 100, 100, 50, 1]
    assert polls[3] == list(range(50))
    assert polls[4:54] == [[offset] for offset in range(50)]
    assert polls[54] == list(range(50, 100))
    assert polls[55:105] == [[offset] for offset in range(50, 100)]
    assert polls[105] == []
    assert (share.start_offset, share.in_flight_count) == (100, 0)


def test_throttled_delivery_with_increased_limit() -> None:
    """testFetchWithThrottledDeliveryBatchesWithIncreasedDeliveryLimit: 5x512, then halves recursively."""
    share = _limit(10)
    polls = _polls(share, "0-511", 10 + 32)
    assert _sizes(polls[:10]) == [512] * 5 + [256, 128, 64, 32, 1]
    assert polls[9:41] == [[offset] for offset in range(32)]
    assert polls[41] == list(range(32, 64))
    rest = _polls(share, "0-511", 2000)
    assert all(poll in ([], list(range(poll[0], poll[-1] + 1))) for poll in rest if poll)
    delivered = Counter(offset for poll in polls + rest for offset in poll)
    assert delivered == dict.fromkeys(range(512), 10)


def test_throttled_records_are_delivered_up_to_the_limit() -> None:
    """testFetchWithThrottledDeliveryValidateDeliveryCount: 500 records, each delivered exactly ten times."""
    share = _limit(10)
    polls = _polls(share, "0-499", 3000)
    assert _sizes(polls[:10]) == [500] * 5 + [250, 125, 62, 31, 1]
    delivered = Counter(offset for poll in polls for offset in poll)
    assert delivered == dict.fromkeys(range(500), 10)
    assert polls[-1] == []


def test_throttled_delivery_with_decreased_limit() -> None:
    """testFetchWithThrottledDeliveryBatchesWithDecreasedDeliveryLimit: limit 2 gives 512, 512, none."""
    assert _sizes(_polls(_limit(2), "0-511", 3)) == [512, 512, 0]


def test_throttled_records_are_isolated_with_several_consumers() -> None:
    """testFetchWithThrottledDeliveryBatchesMultipleConsumers: 0 is delivered alone first, then 1 alone."""
    share = opened()
    fetch(share, "0", "c1")
    for count in range(1, 5):
        assert ranges(fetch(share, "0 1", "c2")) == f"1 x{count}"
        ack(share, "1", RELEASE, "c2")
    ack(share, "0", RELEASE, "c1")
    assert ranges(fetch(share, "0 1", "c2")) == "0 x2"
    assert ranges(fetch(share, "0 1", "c2")) == "1 x5"


def test_dynamic_limit_decrease_archives() -> None:
    """testDynamicDeliveryCountLimitDecreaseArchivesRecords (4.3): 5 to 3, the third release archives."""
    share = opened()
    _polls(share, "0", 2)
    share.settings = SharePartitionSettings(delivery_count_limit=3)
    assert _sizes(_polls(share, "0", 2)) == [1, 0]


def test_dynamic_limit_increase_allows_more() -> None:
    """The same the other way round: 3 to 5."""
    share = _limit(3)
    _polls(share, "0", 2)
    share.settings = SharePartitionSettings(delivery_count_limit=5)
    assert _sizes(_polls(share, "0", 4)) == [1, 1, 1, 0]
