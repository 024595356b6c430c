"""The counts of records in flight."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.share_partition_leader.core.events import Counts, Effects, SharePartitionSettings
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    ack,
    acks,
    done,
    fetch,
    opened,
)

LATER = 100_000.0


def counted(counts: Counts) -> dict[str, Any]:
    """Returns the counts other than 0, acknowledgements as (accept, release, reject, renew)."""
    acknowledged = {"acknowledged": tuple(counts.acknowledged[ACCEPT:])} if any(counts.acknowledged) else {}
    names = (
        "acquired",
        "redelivered",
        "unseen",
        "lost",
        "rejected",
        "exhausted",
        "gaps",
        "aborted",
        "expired",
    )
    return {name: value for name in names if (value := getattr(counts, name))} | acknowledged


def last_attempt(settings: SharePartitionSettings | None = None) -> SteppedPartition:
    """A share-partition with 0-9 acquired for the last time by m1, and nothing counted."""
    share = opened(0, "0-9 available 1", settings or SharePartitionSettings(delivery_count_limit=2))
    fetch(share, "0-9")
    assert counted(share.counts).pop("redelivered") == 10
    share.counts = Counts()
    return share


def test_records_acquired_again_count_as_redelivered() -> None:
    share = opened()
    fetch(share, "0-9 10-19")
    ack(share, "0-4", RELEASE)
    fetch(share, "0-9 10-19")
    assert counted(share.counts) == {"acquired": 25, "redelivered": 5, "acknowledged": (0, 5, 0, 0)}


def test_acknowledgements_are_counted_by_type() -> None:
    share = opened()
    fetch(share, "0-9")
    ack(share, "0-5", (ACCEPT, ACCEPT, RELEASE, REJECT, GAP, ACCEPT))
    ack(share, "6-7", RENEW)
    ack(share, "8", REJECT)
    assert counted(share.counts) == {"acquired": 10, "acknowledged": (3, 1, 2, 2), "rejected": 2, "gaps": 1}


def test_rejected_acknowledgements_are_not_counted() -> None:
    share = opened()
    fetch(share, "0-9")
    with pytest.raises(KafkaError):
        share.acknowledge("m2", acks("0-9"), 0.0)
    assert counted(share.counts) == {"acquired": 10}


def test_archived_records_count_once_durable() -> None:
    share = opened()
    fetch(share, "0-9")
    transition = share.acknowledge("m1", acks("0-9", REJECT), 0.0)
    assert transition is not None
    share.complete([transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert counted(share.counts) == {"acquired": 10, "acknowledged": (0, 0, 10, 0)}


def test_release_at_the_delivery_limit_is_counted_as_exhausted() -> None:
    share = last_attempt()
    ack(share, "0-3", RELEASE)
    ack(share, "4-5", REJECT)
    ack(share, "6-7", ACCEPT)
    transition = share.release_member("m1")
    assert transition is not None
    done(share, transition)
    assert counted(share.counts) == {"acknowledged": (2, 4, 2, 0), "rejected": 2, "exhausted": 6}


def test_lock_timeout_is_counted_as_lost_and_possibly_exhausted() -> None:
    share = last_attempt()
    share.expire(LATER)
    assert counted(share.counts) == {"lost": 10, "exhausted": 10}
    share = opened()
    fetch(share, "0-9")
    share.expire(LATER)
    assert counted(share.counts) == {"acquired": 10, "lost": 10}


def test_undone_acquisitions_are_counted_as_unseen() -> None:
    share = opened()
    fetch(share, "0-9")
    share.undo_acquire("m1", acks("0-3", RELEASE))
    share.undo_all("m1")
    assert counted(share.counts) == {"acquired": 10, "unseen": 10}


def test_aborted_records_are_counted_as_aborted() -> None:
    share = opened()
    acquired = fetch(share, "0-9 10-19")
    share.archive_aborted(acquired, [(5, 9)])
    assert counted(share.counts) == {"acquired": 20, "aborted": 5}


def test_records_deleted_from_the_log_are_not_counted_as_archived() -> None:
    share = opened()
    fetch(share, "0-9")
    transitions = [share.acknowledge("m1", acks(offsets, REJECT), 0.0) for offsets in ("0-4", "5-9")]
    share.move_log_start(5)
    share.complete([transition for transition in transitions if transition is not None])
    assert counted(share.counts) == {"acquired": 10, "acknowledged": (0, 0, 10, 0), "rejected": 10}


def test_reconciled_records_are_counted_by_type() -> None:
    share = opened()
    fetch(share, "0-9")
    reconciled = share.reconcile("m1", acks("0-3", REJECT) + acks("4-5"), 10, 0.0)
    assert reconciled.transition is not None
    done(share, reconciled.transition)
    assert counted(share.counts) == {"acquired": 10, "acknowledged": (2, 0, 4, 0), "rejected": 4}


def test_sizes_count_window_locks_and_available_records() -> None:
    share = opened()
    assert share.in_flight.sizes() == (0, 0, 0, 0, 0, 0, 0)
    fetch(share, "0-9 10-19")
    ack(share, "12", RELEASE)
    assert share.in_flight.sizes() == (20, 3, 20, 19, 1, 0, 0)


def test_counts_are_added() -> None:
    first, second = opened(), opened()
    for share in (first, second):
        fetch(share, "0-9")
        ack(share, "0-1", REJECT)
    first.counts.merge(second.counts)
    assert counted(first.counts) == {"acquired": 20, "acknowledged": (0, 0, 4, 0), "rejected": 4}


@pytest.mark.parametrize(("limit", "throttled_from"), [(2, 2), (3, 2), (5, 3), (10, 5)])
def test_throttling_starts_at_half_the_delivery_limit(limit: int, throttled_from: int) -> None:
    assert SharePartitionSettings(delivery_count_limit=limit).throttle_limit == throttled_from


def test_effects_are_empty_until_an_event_fills_them() -> None:
    effects = Effects()
    assert not any(getattr(effects, name) for name in dir(effects) if not name.startswith("_"))
    effects.wake = True
    assert not Effects().wake
