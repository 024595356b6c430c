"""Acquisition locks: deadlines, time-outs and their writes; tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    AcquireRequest,
    Event,
    LoadedState,
    LostLock,
    RenewAll,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import SPARE, InFlight
from sharebroker_server.share_partition_leader.core.locks import DURABLE_LOCK, RECHECK, tokens_of
from sharebroker_server.share_partition_leader.core.runs import Lock, Run
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
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


@pytest.mark.parametrize(("now", "lost"), [(0.0, 0), (29.9, 0), (30.0, 1), (30.1, 1), (1e9, 1)])
def test_lock_times_out_at_its_deadline(now: float, lost: int) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    expired = share.expire(now)
    check(share)
    assert len(expired.lost) == lost
    assert (expired.transition is not None) is bool(lost)
    assert picture(share) == ("0-9 available 1" if lost else "0-9 acquired 1")


def test_a_reload_issues_no_token_twice() -> None:
    tokens, settings = tokens_of(3), SharePartitionSettings()
    seen: list[int] = []
    for _ in range(3):
        share = SteppedPartition(settings, LoadedState(1, 3, 0), tokens)
        [acquired] = share.acquire(AcquireRequest("m1", 10, 10), 0, [(0, 9)], 0.0)
        late = AckBatch(0, 9, (RELEASE,), seen[-1]) if seen else None
        if late is not None:
            with pytest.raises(KafkaError) as refused:
                share.acknowledge("m1", [late], 0.0)
            assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
        seen.append(acquired.token)
    assert seen == [(3 << 32) + number for number in (1, 2, 3)]


def test_lost_lock_has_holder_token_and_records() -> None:
    share = opened()
    token = fetch(share, "0-9", "m1", now=0.0)[0].token
    ack(share, "5")
    lost = share.expire(30.0).lost
    assert lost == (
        LostLock("m1", token, 0, 4, 1, AVAILABLE),
        LostLock("m1", token, 6, 9, 1, AVAILABLE),
    )


def test_a_lock_has_the_requested_length() -> None:
    share = opened()
    share.acquire(AcquireRequest("m1", 10, 10, lock=3600.0), 0, [(0, 9)], 5.0)
    share.acquire(AcquireRequest("m1", 10, 10), 10, [(10, 19)], 5.0)
    assert [lost.first for lost in share.expire(35.0).lost] == [10]
    assert [lost.first for lost in share.expire(3604.9).lost] == []
    assert [lost.first for lost in share.expire(3605.0).lost] == [0]


@pytest.mark.parametrize(("lock", "ends"), [(0.0, 40.0), (1.0, 11.0), (7200.0, 7210.0)])
def test_a_renewal_sets_the_requested_length(lock: float, ends: float) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    stored = share.acknowledge("m1", acks("0-4", RENEW), 10.0, lock=lock)
    assert (stored is not None) is (lock >= DURABLE_LOCK)
    held = [(item.first, item.last, item.deadline) for item in share.in_flight.held_by("m1")]
    assert held == [(0, 4, ends), (5, 9, 30.0)]


@pytest.mark.parametrize("held", [120.0, 3600.0])
@pytest.mark.parametrize(
    ("renewal", "ends"),
    [
        (Acknowledge("m1", acks("0-9", RENEW), lambda _: None, None, 60.0), 70.0),
        (Acknowledge("m1", acks("0-9", RENEW), lambda _: None, None, 1.0), 11.0),
        (RenewAll("m1"), 40.0),
    ],
)
def test_a_renewal_to_an_earlier_time_sets_the_timer(held: float, renewal: Event, ends: float) -> None:
    share = opened()
    share.acquire(AcquireRequest("m1", 10, 10, lock=held), 0, [(0, 9)], 0.0)
    assert share.handle(renewal, 10.0).deadline == ends


@pytest.mark.parametrize("lock", [-1.0, 0.999, 7200.001, 1e9])
def test_lock_lengths_out_of_bounds_change_nothing(lock: float) -> None:
    share = opened(settings=SharePartitionSettings(max_lock=7200.0))
    fetch(share, "0-9", now=0.0)
    text = rf"lock_ms is {round(lock * 1000)}; 1000 to 7200000 is allowed"
    with pytest.raises(KafkaError, match=text) as refused:
        share.acquire(AcquireRequest("m1", 10, 10, lock=lock), 10, [(12, 19)], 0.0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(KafkaError, match=text) as refused:
        share.acknowledge("m1", acks("0-9", RENEW), 0.0, lock=lock)
    assert (refused.value.code, picture(share)) == (ErrorCode.INVALID_REQUEST, "0-9 acquired 1")


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
def test_a_lock_length_is_for_renewals_only(kind: int) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    with pytest.raises(KafkaError, match="lock_ms: is for renewals only"):
        share.acknowledge("m1", acks("0-9", kind), 0.0, lock=60.0)


def test_lock_timeout_is_written_like_a_release() -> None:
    share = opened()
    fetch(share, "0-9", "m1", now=0.0)
    fetch(share, "10-19", "m2", now=10.0)
    expired = share.expire(30.0)
    assert expired.transition is not None
    assert show(done(share, expired.transition)) == "0: 0-9 available 1"


def test_lock_timeout_at_the_delivery_limit_archives_and_moves_the_spso() -> None:
    share = opened(stored="0-4 available 4")
    fetch(share, "0-9", now=0.0)
    expired = share.expire(30.0)
    assert [x.state for x in expired.lost] == [ARCHIVED]
    assert expired.transition is not None
    assert show(share.write([expired.transition])) == "1:"
    assert share.start_offset == 1


def test_archived_record_after_an_acquired_one_is_counted() -> None:
    share = opened(stored="0-4 available 4")
    fetch(share, "0-4", now=0.0)
    fetch(share, "0-4", now=10.0)
    expired = share.expire(30.0)
    assert expired.transition is not None
    fetch(share, "0-4", now=35.0)
    share.expire(40.0)
    assert share.write([expired.transition]).start_offset == 2


def test_failed_write_of_a_lock_timeout_is_ignored() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    expired = share.expire(30.0)
    assert expired.transition is not None
    share.complete([expired.transition], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert picture(share) == "0-9 available 1"
    assert ranges(fetch(share, "0-9", now=31.0)) == "0-9 x2"


def test_locks_time_out_in_order_of_their_deadlines() -> None:
    share = opened()
    for number in range(4):
        fetch(share, [(number * 10, number * 10 + 9)], f"m{number}", now=float(number))
    seen = []
    while (deadline := share.next_deadline()) is not None:
        seen.append((deadline, [x.member for x in share.expire(deadline).lost]))
        check(share)
    assert seen == [(30.0, ["m0"]), (31.0, ["m1"]), (32.0, ["m2"]), (33.0, ["m3"])]


def test_several_locks_due_at_once_end_together() -> None:
    share = opened()
    for number in range(3):
        fetch(share, [(number * 10, number * 10 + 9)], f"m{number}", now=float(number))
    assert [x.member for x in share.expire(31.5).lost] == ["m0", "m1"]
    assert share.next_deadline() == 32.0


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
def test_next_deadline_may_be_early_while_other_records_are_locked(kind: int) -> None:
    share = opened()
    fetch(share, "0-9", "m1", now=0.0)
    fetch(share, "10-19", "m2", now=1.0)
    ack(share, "0-9", kind)
    assert share.next_deadline() == 30.0
    assert share.expire(30.0) == ((), None)
    assert share.next_deadline() == 31.0


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
def test_without_locked_records_there_is_no_deadline(kind: int) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    ack(share, "0-9", kind)
    assert share.next_deadline() is None
    fetch(share, "10-19", now=1.0)
    assert share.next_deadline() is not None


def test_later_lock_with_an_earlier_deadline_times_out_first() -> None:
    share = opened()
    fetch(share, "0-9", "m1", now=0.0)
    share.settings = SharePartitionSettings(lock_duration=5.0)
    fetch(share, "10-19", "m2", now=1.0)
    assert share.next_deadline() == 6.0
    assert [x.member for x in share.expire(6.0).lost] == ["m2"]
    assert share.next_deadline() == 30.0


@pytest.mark.parametrize("now", [29.0, 30.0, 100.0])
def test_acknowledgement_before_the_timeout_is_processed_is_accepted(now: float) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    assert ack(share, "0-9", now=now) is not None
    assert share.expire(200.0).lost == ()


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, RENEW])
def test_acknowledgement_after_the_lock_timeout_is_rejected(kind: int) -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    share.expire(30.0)
    with pytest.raises(KafkaError, match="lock lost"):
        share.acknowledge("m1", acks("0-9", kind), 30.0)


# --- KAFKA-19476: a lock timeout while a change waits for its write


def test_lock_with_a_pending_transition_does_not_time_out() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    pending = share.acknowledge("m1", acks("0-4"), 29.0)
    assert pending is not None
    assert [(x.first, x.last) for x in share.expire(30.0).lost] == [(5, 9)]
    assert share.next_deadline() == 30.0 + RECHECK
    share.complete([pending])
    assert picture(share) == "5-9 available 1"
    assert share.next_deadline() is None


@pytest.mark.parametrize(
    ("stored", "window", "state"),
    [("", "0-4 available 1", AVAILABLE), ("0-4 available 4", "1-4 available 4", ARCHIVED)],
)
def test_lock_due_during_a_failed_write_times_out_after_it(stored: str, window: str, state: int) -> None:
    share = opened(stored=stored)
    fetch(share, "0-4", now=0.0)
    pending = share.acknowledge("m1", acks("0-4" if not stored else "0"), 29.0)
    assert pending is not None
    assert share.expire(31.0).lost == ()
    share.complete([pending], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    check(share)
    assert share.next_deadline() == 30.0
    assert [x.state for x in share.expire(31.0).lost] == [state]
    assert picture(share) == window


def test_an_acknowledged_record_never_becomes_available_again() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    pending = share.acknowledge("m1", acks("3"), 29.0)
    assert pending is not None
    share.expire(30.0)
    share.complete([pending])
    assert share.in_flight.runs[share.in_flight.locate(3)].state is ACKNOWLEDGED
    assert ranges(fetch(share, "0-9", now=31.0)) == "0-2 x2, 4-9 x2"


def test_deleted_record_has_no_timer() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    share.move_log_start(10)
    assert share.expire(30.0).lost == ()
    assert share.next_deadline() is None


def test_renewed_lock_times_out_at_its_new_deadline_only() -> None:
    share = opened()
    fetch(share, "0-9", now=0.0)
    for now in (10.0, 10.0, 20.0):
        ack(share, "0-4", RENEW, now=now)
        check(share)
    assert [(x.first, x.last) for x in share.expire(30.0).lost] == [(5, 9)]
    assert [(x.first, x.last) for x in share.expire(49.9).lost] == []
    assert [(x.first, x.last) for x in share.expire(50.0).lost] == [(0, 4)]


@pytest.mark.slow
@pytest.mark.patches
def test_time_outs_touch_only_the_runs_of_their_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    share = opened(settings=SharePartitionSettings(max_record_locks=20_000))
    fetch(share, [(0, 9_999)], "slow", now=5.0)
    for first in range(0, 10_000, 20):
        ack(share, f"{first}-{first + 9}", member="slow")
    fetch(share, [(10_000, 10_009)], now=0.0)
    visited = []
    under = InFlight.under

    def counted(self: InFlight, lock: Lock) -> Iterator[Run]:
        for run in under(self, lock):
            visited.append(run)
            yield run

    monkeypatch.setattr(InFlight, "under", counted)
    assert [(x.first, x.last) for x in share.expire(30.0).lost] == [(10_000, 10_009)]
    assert len(visited) == 1


def test_ended_locks_do_not_stay_in_memory() -> None:
    share = opened()
    fetch(share, "0", "slow")
    for first in range(1, 2001):
        fetch(share, [(first, first)])
        ack(share, str(first))
    assert len(share._locks._heap) <= 2 * SPARE + 4
    assert sum(map(len, share.in_flight.locks_of.values())) <= 2 * SPARE + 4
    assert [x.member for x in share.expire(30.0).lost] == ["slow"]
    assert not share.in_flight.locks_of


@pytest.mark.patches
def test_holders_are_found_without_a_walk_over_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    share = opened(settings=SharePartitionSettings(max_record_locks=10_000))
    fetch(share, [(0, 399)], "first", most=400)
    for offset in range(0, 399, 2):
        ack(share, str(offset), RELEASE, "first")
        fetch(share, [(offset, offset)], f"m{offset}")
    visited: list[int] = []
    under = InFlight.under

    def counted(self: InFlight, lock: Lock) -> Iterator[Run]:
        for run in under(self, lock):
            visited.append(run.first)
            yield run

    monkeypatch.setattr(InFlight, "under", counted)
    assert share.in_flight.holds("m398")
    assert share.in_flight.holds("first")
    assert not share.in_flight.holds("another")
    assert len(visited) == 2


def test_failed_writes_do_not_fill_the_heap() -> None:
    share = opened()
    fetch(share, "0-9")
    for _ in range(1000):
        pending = share.acknowledge("m1", acks("0-9"), 0.0)
        assert pending is not None
        share.complete([pending], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert len(share._locks._heap) <= 2 * SPARE + 4
    assert [x.member for x in share.expire(30.0).lost] == ["m1"]
