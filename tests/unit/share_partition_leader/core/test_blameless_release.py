"""Blameless release: it does not count as a delivery, nor does a release in groups that count failures."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core.events import LoadedState, SharePartitionSettings
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Store,
    acks,
    check,
    done,
    fetch,
    opened,
    picture,
    ranges,
    show,
)

FAILURES = SharePartitionSettings(delivery_count_limit=3, releases_count=False)


def _release(
    share: SteppedPartition, part: str, delay: float | None = None, *, blameless: bool = True
) -> str:
    transition = share.acknowledge("m1", acks(part, RELEASE), 0.0, delay, blameless=blameless)
    assert transition is not None
    return show(done(share, transition))


def test_a_hundred_blameless_releases_keep_the_count() -> None:
    share = opened(0, "0-4 available 1")
    for _ in range(100):
        assert ranges(fetch(share, "0-4")) == "0-4 x2"
        assert _release(share, "0-4") == "0: 0-4 available 1"
    assert picture(share) == "0-4 available 1"


def test_fail_over_keeps_the_count() -> None:
    store, share = Store(0), opened()
    for epoch in range(2, 10):
        assert ranges(fetch(share, "0-4")) == "0-4 x1"
        transition = share.acknowledge("m1", acks("0-4", RELEASE), 0.0, blameless=True)
        assert transition is not None
        store.apply(done(share, transition))
        share = SteppedPartition(SharePartitionSettings(), store.loaded(epoch))
        check(share)


def test_the_last_delivery_is_not_archived() -> None:
    share = opened(0, "0 available 4")
    assert ranges(fetch(share, "0")) == "0 x5"
    assert _release(share, "0") == "0: 0 available 4"
    assert ranges(fetch(share, "0")) == "0 x5"
    assert _release(share, "0", blameless=False) == "1:"


def test_the_delay_applies() -> None:
    share = opened()
    fetch(share, "0-4")
    assert _release(share, "1-2", 10.0) == "0: 1-2 available 0"
    assert picture(share) == "0 acquired 1, 1-2 available 0 from 10, 3-4 acquired 1"


def test_a_failed_write_leaves_the_delivery() -> None:
    share = opened()
    fetch(share, "0-4")
    transition = share.acknowledge("m1", acks("0-4", RELEASE), 0.0, blameless=True)
    assert transition is not None
    share.complete([transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    check(share)
    assert picture(share) == "0-4 acquired 1"
    assert _release(share, "0-4", blameless=False) == "0: 0-4 available 1"


@pytest.mark.parametrize("kind", [ACCEPT, REJECT, RENEW])
def test_only_releases_are_blameless(kind: int) -> None:
    share = opened()
    fetch(share, "0-4")
    with pytest.raises(KafkaError, match="blameless: is for releases only"):
        share.acknowledge("m1", acks("0-4", kind), 0.0, blameless=True)
    assert picture(share) == "0-4 acquired 1"


def test_a_group_that_counts_failures_does_not_count_releases() -> None:
    share = opened(settings=FAILURES)
    for _ in range(10):
        assert ranges(fetch(share, "0-4")) == "0-4 x1"
        assert _release(share, "0-4", blameless=False) == "0: 0-4 available 0"
    fetch(share, "0-4")
    transition = share.acknowledge("m1", acks("0-4", [RELEASE, ACCEPT, REJECT, RELEASE, ACCEPT]), 0.0)
    assert transition is not None
    released = "0 available 0, 1 acknowledged 1, 2 archived 1, 3 available 0, 4 acknowledged 1"
    assert show(done(share, transition)) == f"0: {released}"


def test_a_group_that_counts_failures_counts_time_outs_and_ended_sessions() -> None:
    share = opened(settings=FAILURES)
    fetch(share, "0")
    expired = share.expire(30.0).transition
    assert expired is not None
    assert show(done(share, expired)) == "0: 0 available 1"
    fetch(share, "0", now=30.0)
    left = share.release_member("m1")
    assert left is not None
    assert show(done(share, left)) == "0: 0 available 2"
    fetch(share, "0", now=30.0)
    left = share.release_member("m1")
    assert left is not None
    assert show(done(share, left)) == "1:"


def test_a_planned_release_does_not_count_in_such_a_group() -> None:
    share = SteppedPartition(FAILURES, LoadedState(3, 7, 0))
    fetch(share, "0-4")
    transition = share.reconcile("m1", acks("0-4", RELEASE), 5, 0.0).transition
    assert transition is not None
    assert show(done(share, transition)) == "0: 0-4 available 0"
