"""What a caller asks before it gives a member records that failed often."""

from __future__ import annotations

import pytest

from sharebroker_server.share_partition_leader.core.values import SharePartitionSettings
from tests.unit.share_partition_leader.core.support import ACCEPT, RELEASE, ack, acks, done, fetch, opened


def test_holds() -> None:
    share = opened(10)
    assert not share.holds("m1")
    fetch(share, "10-19", member="m1")
    fetch(share, "30-39", member="m2")
    transition = share.acknowledge("m1", acks("10-19", ACCEPT), 0.0)
    assert transition is not None
    assert share.holds("m1")  # until it is durable
    done(share, transition)
    assert not share.holds("m1")
    ack(share, "31-39", RELEASE, member="m2")
    assert share.holds("m2")


@pytest.mark.parametrize(
    ("stored", "isolates"),
    [
        pytest.param("", False, id="nothing in flight"),
        pytest.param("11-19 acknowledged 3", False, id="a hole"),
        pytest.param("10-19 available 2", False, id="below the limit"),
        pytest.param("10-19 available 3", True, id="at the limit"),
        pytest.param("10 available 1, 11-19 available 4", False, id="behind others"),
        pytest.param("10-19 acknowledged 4, 20 available 4", True, id="behind what is finished"),
    ],
)
def test_isolates_next(stored: str, isolates: bool) -> None:
    share = opened(10, stored, SharePartitionSettings(delivery_count_limit=5))
    assert share.next_is_throttled() is isolates


def test_one_record_of_a_batch_isolates_it() -> None:
    share = opened(10, settings=SharePartitionSettings(delivery_count_limit=3))
    for first in (10, 11):
        fetch(share, "10-19")
        ack(share, f"{first}-19", RELEASE)
    assert share.next_is_throttled()
    share.settings = SharePartitionSettings(delivery_count_limit=5)
    assert not share.next_is_throttled()
