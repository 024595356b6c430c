"""Undo of an acquisition: the records count as not delivered."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    LIMITED,
    RELEASE,
    RENEW,
    ack,
    acks,
    check,
    done,
    fetch,
    opened,
    picture,
    ranges,
    show,
)


def test_undone_delivery_does_not_count() -> None:
    share = opened()
    fetch(share, "0-9")
    share.undo_acquire("m1", acks("3-6", RELEASE))
    assert picture(share) == "0-2 acquired 1, 3-6 available 0, 7-9 acquired 1"
    assert share.next_fetch_offset() == 3
    assert ranges(fetch(share, "0-9", "m2")) == "3-6 x1"


def test_undo_writes_nothing() -> None:
    share = opened(0, "0-4 available 2")
    assert ranges(fetch(share, "0-4")) == "0-4 x3"
    share.undo_acquire("m1", acks("0-4", RELEASE))
    assert show(share.write()) == "0:"
    assert picture(share) == "0-4 available 2"


def test_undo_of_the_last_delivery_does_not_archive() -> None:
    share = opened(0, "0 available 1", SharePartitionSettings(delivery_count_limit=2))
    for _ in range(3):
        assert ranges(fetch(share, "0")) == "0 x2"
        share.undo_acquire("m1", acks("0", RELEASE))
    assert ranges(fetch(share, "0")) == "0 x2"
    ack(share, "0", RELEASE)
    assert share.start_offset == 1


def test_only_the_holder_can_undo_and_only_all_its_records() -> None:
    share = opened()
    fetch(share, "0-9", most=5, mode=LIMITED)
    fetch(share, "0-9", "m2")
    with pytest.raises(KafkaError) as caught:
        share.undo_acquire("m1", acks("3-6", RELEASE))
    assert caught.value.metadata == {"offset": "5", "reason": "held_by_another_member"}
    assert picture(share, members=True) == "0-4 acquired 1 m1, 5-9 acquired 1 m2"
    check(share)


@pytest.mark.parametrize("kind", [ACCEPT, RENEW])
def test_only_releases_can_undo_an_acquisition(kind: int) -> None:
    share = opened()
    fetch(share, "0-9")
    with pytest.raises(KafkaError) as caught:
        share.undo_acquire("m1", acks("0-9", kind))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert [violation.field for violation in caught.value.violations] == ["unseen"]


def test_all_acquisitions_of_a_member_are_undone() -> None:
    share = opened()
    fetch(share, "0-9")
    answered = share.acknowledge("m1", acks("0-2"), 0.0)
    assert answered is not None
    fetch(share, "10-14", "m2")
    share.undo_all("m1")
    check(share)
    assert picture(share, members=True) == "0-2 acquired 1 m1, 3-9 available 0, 10-14 acquired 1 m2"
    done(share, answered)
    assert share.start_offset == 3
    share.undo_all("unknown")
    assert picture(share) == "3-9 available 0, 10-14 acquired 1"
