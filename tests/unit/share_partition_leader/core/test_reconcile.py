"""Reconciliation of ranges: held, available, finished and new records, and those of other holders."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.leader_calls.values import UnreconciledReason
from sharebroker_server.share_partition_leader.core.events import SharePartitionSettings
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    GAP,
    LIMITED,
    REJECT,
    RELEASE,
    RENEW,
    ack,
    acks,
    check,
    done,
    fetch,
    log_of,
    opened,
    picture,
    ranges,
    show,
)


def settle(
    share: SteppedPartition,
    text: str,
    kind: int = ACCEPT,
    member: str = "m1",
    end: int = 1000,
    now: float = 0.0,
) -> tuple[str, str]:
    """Reconciles "10-19 25" durably; returns the write and the rest as "10-12 taken, 15 finished"."""
    reconciled = share.reconcile(member, acks(text, kind), end, now)
    check(share)
    written = "" if reconciled.transition is None else show(done(share, reconciled.transition))
    left = ", ".join(f"{first}-{last} {reason.name.lower()}" for first, last, reason in reconciled.left)
    return written, left


def lose(share: SteppedPartition, now: float) -> None:
    """Ends the locks with a deadline before `now`, durably."""
    expired = share.expire(now)
    assert expired.transition is not None
    done(share, expired.transition)


def test_held_records_are_reconciled_as_acknowledged() -> None:
    share = opened()
    fetch(share, "0-9")
    assert settle(share, "0-4") == ("5:", "")
    assert settle(share, "7-9", REJECT) == ("5: 7-9 archived 1", "")
    assert picture(share, members=True) == "5-6 acquired 1 m1, 7-9 archived 1"
    assert settle(share, "5-6", RELEASE) == ("5: 5-6 available 1", "")


def test_available_records_are_acquired_and_reconciled_in_one_step() -> None:
    share = opened(settings=SharePartitionSettings(lock_duration=10))
    fetch(share, "0-9")
    lose(share, 10)
    assert picture(share) == "0-9 available 1"
    assert settle(share, "2-5", now=11) == ("0: 2-5 acknowledged 2", "")
    assert picture(share) == "0-1 available 1, 2-5 acknowledged 2, 6-9 available 1"


@pytest.mark.parametrize(
    ("stored", "named", "written", "window"),
    [
        ("", "10-19", "0: 10-19 acknowledged 1", "0-9 available 0, 10-19 acknowledged 1"),
        ("", "0-19", "20:", ""),
        ("0-4 available 2", "2-9", "0: 2-4 acknowledged 3, 5-9 acknowledged 1",
         "0-1 available 2, 2-4 acknowledged 3, 5-9 acknowledged 1"),
        ("5-9 acknowledged 1", "0-4", "10:", ""),
        ("5-9 acknowledged 1", "2-3", "0: 2-3 acknowledged 1",
         "0-1 available 0, 2-3 acknowledged 1, 4 available 0, 5-9 acknowledged 1"),
    ],
)  # fmt: skip
def test_a_new_leader_has_no_locks(stored: str, named: str, written: str, window: str) -> None:
    share = opened(0, stored)
    assert settle(share, named) == (written, "")
    assert picture(share) == window


def test_skipped_records_are_acquired_by_the_next_fetch() -> None:
    share = opened()
    settle(share, "10-14")
    assert ranges(fetch(share, "0-19", "m2")) == "0-9 x1, 15-19 x1"


def test_records_of_another_member_are_unreconciled() -> None:
    share = opened()
    fetch(share, "0-3", "m2")
    fetch(share, "4-9", "m1")
    assert settle(share, "0-9") == ("0: 4-9 acknowledged 1", "0-3 taken")
    assert picture(share, members=True) == "0-3 acquired 1 m2, 4-9 acknowledged 1"


def test_delayed_releases_are_unreconciled() -> None:
    share = opened()
    fetch(share, "0-3")
    released = share.acknowledge("m1", acks("0-3", RELEASE), 0.0, delay=60)
    assert released is not None
    done(share, released)
    assert settle(share, "0-3") == ("", "0-3 taken")


def test_finished_records_are_unreconciled() -> None:
    share = opened(3, "4-5 archived 1, 7 acknowledged 1")
    assert settle(share, "0-8", end=10) == ("9:", "0-2 finished, 4-5 finished, 7-7 finished")


def test_repeated_reconcile_reports_finished_records() -> None:
    share = opened()
    fetch(share, "0-9")
    settle(share, "4-9")
    assert settle(share, "4-9") == ("", "4-9 finished")
    settle(share, "0-3")
    assert settle(share, "0-9") == ("", "0-9 finished")


def test_pending_and_finished_records_are_distinguished() -> None:
    share = opened()
    fetch(share, "0-9")
    first = share.reconcile("m1", acks("0-4"), 10, 0.0)
    assert first.transition is not None
    again = share.reconcile("m1", acks("0-6"), 10, 0.0)
    assert [(one.first, one.last, one.reason) for one in again.left] == [(0, 4, UnreconciledReason.UNDER_WAY)]
    assert again.transition is not None
    done(share, first.transition, again.transition)
    assert share.start_offset == 7


def test_offsets_past_the_end_are_unreconciled() -> None:
    share = opened()
    assert settle(share, "5-14", end=10) == ("0: 5-9 acknowledged 1", "10-14 past_end")
    assert settle(share, "20-29", end=10) == ("", "20-29 past_end")


def test_offsets_between_runs_are_ignored() -> None:
    share = opened()
    fetch(share, "0-4")
    fetch(share, "10-14")
    assert settle(share, "0-14") == ("15:", "")


def test_failed_write_keeps_the_locks() -> None:
    share = opened()
    reconciled = share.reconcile("m1", acks("3-5"), 10, 0.0)
    assert reconciled.transition is not None
    share.complete([reconciled.transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    check(share)
    assert picture(share, members=True) == "0-2 available 0, 3-5 acquired 1 m1"
    assert settle(share, "3-5") == ("0: 3-5 acknowledged 1", "")


def test_renewing_extends_locks_and_acquires_available_records() -> None:
    share = opened(settings=SharePartitionSettings(lock_duration=10))
    fetch(share, "0-9", most=5, mode=LIMITED)
    assert settle(share, "0-9", RENEW, now=5) == ("", "")
    assert picture(share, members=True) == "0-9 acquired 1 m1"
    assert {run.deadline for run in share.in_flight.held_by("m1")} == {15}
    lose(share, 15)
    assert settle(share, "0-9", RENEW, now=16) == ("", "")
    assert picture(share, members=True) == "0-9 acquired 2 m1"


def test_disabled_renewal_changes_no_deadline() -> None:
    share = opened(settings=SharePartitionSettings(lock_duration=10, renew_enabled=False))
    fetch(share, "0-9")
    assert settle(share, "0-9", RENEW, now=5) == ("", "")
    share.renew_all("m1", 5)
    assert {run.deadline for run in share.in_flight.held_by("m1")} == {10}


def test_all_locks_of_a_member_are_renewed() -> None:
    share = opened(settings=SharePartitionSettings(lock_duration=10))
    fetch(share, "0-4")
    fetch(share, "5-9", "m2")
    share.renew_all("m1", 4)
    share.renew_all("unknown", 5)
    assert {run.deadline for run in share.in_flight.held_by("m1")} == {14}
    assert {run.deadline for run in share.in_flight.held_by("m2")} == {10}
    lose(share, 10)
    assert picture(share, members=True) == "0-4 acquired 1 m1, 5-9 available 1"


def test_releasing_available_records_does_nothing() -> None:
    share = opened()
    assert settle(share, "3-5", RELEASE) == ("", "")
    assert picture(share) == "0-5 available 0"


def test_release_at_the_delivery_limit_archives_the_record() -> None:
    share = opened(0, "0 available 4", SharePartitionSettings(delivery_count_limit=5))
    fetch(share, "0")
    assert settle(share, "0", RELEASE) == ("1:", "")


def test_held_by_returns_ranges_as_acquired() -> None:
    share = opened(0, "5-9 available 1")
    assert share.in_flight.held_by("m1") == []
    fetch(share, "0-4")
    fetch(share, "5-9")
    settle(share, "2")
    assert [run[:3] for run in share.in_flight.held_by("m1")] == [(0, 1, 1), (3, 4, 1), (5, 9, 2)]
    answered = share.acknowledge("m1", acks("5-9"), 0.0)
    assert answered is not None
    assert [run[:2] for run in share.in_flight.held_by("m1")] == [(0, 1), (3, 4)]


def test_held_by_merges_ranges_of_one_acquisition() -> None:
    share = opened()
    fetch(share, "0-4 5-9 10-14", size=5)
    assert [run[:3] for run in share.in_flight.held_by("m1")] == [(0, 14, 1)]


@pytest.mark.parametrize(
    "batches",
    [
        [AckBatch(0, 1, (ACCEPT, REJECT))],
        [AckBatch(0, 1, (GAP,))],
        [AckBatch(0, 1, (7,))],
        [AckBatch(5, 1, (ACCEPT,))],
        [AckBatch(5, 6, (ACCEPT,)), AckBatch(0, 1, (ACCEPT,))],
        [AckBatch(0, 1, ())],
    ],
)
def test_invalid_request_is_rejected_whole(batches: Sequence[AckBatch]) -> None:
    share = opened()
    fetch(share, "0-9")
    with pytest.raises(KafkaError) as caught:
        share.reconcile("m1", batches, 10, 0.0)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert picture(share) == "0-9 acquired 1"


def test_reconciled_records_are_not_redelivered() -> None:
    share = opened()
    settle(share, "0-4")
    assert ranges(fetch(share, "0-9", "m2")) == "5-9 x1"
    ack(share, "5-9", ACCEPT, "m2")
    assert share.start_offset == 10
    assert log_of("0-9") == [(0, 9)]


def test_adjacent_unreconciled_ranges_of_one_reason_are_merged() -> None:
    share = opened(3, "3-5 available 1, 6-7 archived 1, 8 acknowledged 2")
    fetch(share, "3-5", "m2")
    assert settle(share, "0-8", end=9)[1] == "0-2 finished, 3-5 taken, 6-8 finished"


def test_archived_records_are_written_again_and_accepted_ones_not() -> None:
    """An archived record may be so in memory alone; an accepted one is durable."""
    share = opened(0, "0 available 1, 1-6 archived 5, 7-8 acknowledged 2")
    assert settle(share, "2-4 7-8") == ("0: 2-4 archived 5", "2-4 finished, 7-8 finished")
    assert settle(share, "5-10") == ("0: 5-6 archived 5, 9-10 acknowledged 1", "5-8 finished")
