"""Durable locks: a new leader loads them with their holder, token and deadline."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import StateNote
from sharebroker_server.share_partition_leader.core.backoff import RetryBackoff, RetryCause
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    Effects,
    Loaded,
    LoadedState,
    MembersLeft,
    Reconcile,
    RenewAll,
    Reply,
    Retire,
    SharePartitionSettings,
    TimerFired,
    UndoAcquire,
    WriteCompleted,
)
from tests.unit.share_partition_leader.core.stepped import SteppedPartition
from tests.unit.share_partition_leader.core.support import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Store,
    acks,
    check,
    picture,
    show,
)

HOUR = 3600.0
BACKOFF = RetryBackoff(1000, 1.0, 1000, 0.0, frozenset({RetryCause.TIMEOUT}), 86_400_000)


class Leaders:
    """A share-partition whose state survives its leaders; every write is durable unless it fails."""

    def __init__(
        self, clock_offset: float = 0.0, settings: SharePartitionSettings = SharePartitionSettings()
    ) -> None:
        self.settings = settings
        self.store = Store(0)
        self.clock_offset = clock_offset
        self.epoch = 1
        self.replies: list[KafkaError | None] = []
        self.writes: list[str] = []
        self.share = self._lead()

    def _lead(self) -> SteppedPartition:
        loaded = self.store.loaded(self.epoch)
        state = LoadedState(3, self.epoch, loaded.start_offset, loaded.batches, self.clock_offset * 1000)
        return SteppedPartition(self.settings, state)

    def fail_over(self, clock_offset: float = 0.0) -> None:
        self.epoch += 1
        self.clock_offset = clock_offset
        self.share = self._lead()
        check(self.share)

    def acquire(self, member: str, lock: float, now: float = 0.0, log: tuple[int, int] = (0, 4)) -> Effects:
        request = AcquireRequest(member, 100, 100, lock=lock)
        return self.done(self.share.handle(Acquire(request, self.share.next_fetch_offset(), [log]), now))

    def acknowledge(
        self,
        part: str,
        kind: int,
        token: int | None,
        now: float,
        lock: float = 0.0,
        *,
        blameless: bool = False,
    ) -> None:
        event = Acknowledge("@m1", acks(part, kind, token), self.reply, None, lock, blameless)
        self.done(self.share.handle(event, now))

    @property
    def reply(self) -> Reply:
        return self.replies.append

    def done(
        self, effects: Effects, error: KafkaError | None = None, now: float = 0.0, *, stored: bool = False
    ) -> Effects:
        """Performs the writes and replies of effects; the writes end at `now`.

        With an `error` they may be `stored` nevertheless.
        """
        answers, more = list(effects.replies), effects
        while more.write_due:
            write = self.share.next_write()
            assert write is not None
            if error is None or stored:
                self.store.apply(write)
                self.writes.append(show(write))
            more = self.share.handle(WriteCompleted(error), now)
            answers += more.replies
        for reply, outcome in answers:
            reply(outcome)
        check(self.share)
        return effects


def _token(effects: Effects) -> int:
    return effects.acquired[0].token


@pytest.mark.parametrize("lock", [0.0, 1.0, 59.999])
def test_short_locks_are_not_stored(lock: float) -> None:
    leaders = Leaders()
    leaders.acquire("@m1", lock)
    assert not leaders.writes
    leaders.fail_over()
    assert picture(leaders.share) == ""


def test_locks_that_a_stream_holds_are_not_stored() -> None:
    leaders = Leaders()
    leaders.acquire("17@m1", HOUR)
    assert not leaders.writes


def test_three_fail_overs_keep_holder_token_deadline_and_count() -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", HOUR))
    assert leaders.writes == ["0: 0-4 available 0"]
    for _ in range(3):
        leaders.fail_over()
        assert picture(leaders.share, members=True) == "0-4 acquired 1 @m1"
        assert [(x.token, x.deadline) for x in leaders.share.in_flight.held_by("@m1")] == [(token, HOUR)]
        assert leaders.acquire("@m2", 0.0).acquired == ()
    leaders.acknowledge("0-4", ACCEPT, token, 3000.0)
    assert leaders.replies == [None]
    leaders.fail_over()
    assert (leaders.share.start_offset, picture(leaders.share)) == (5, "")


def test_a_stale_token_is_refused_after_a_fail_over() -> None:
    leaders = Leaders()
    stale = _token(leaders.acquire("@m1", HOUR))
    leaders.acknowledge("0-4", RELEASE, stale, 1.0)
    token = _token(leaders.acquire("@m1", HOUR, 2.0))
    leaders.fail_over()
    with pytest.raises(KafkaError) as refused:
        leaders.acknowledge("0-4", ACCEPT, stale, 3.0)
    assert refused.value.metadata["reason"] == "stale_token"
    leaders.acknowledge("0-4", ACCEPT, token, 3.0)


@pytest.mark.parametrize("offset", [-7.0, 0.0, 12.5])
def test_the_deadline_is_by_the_clock_of_redis(offset: float) -> None:
    leaders = Leaders(clock_offset=offset)
    leaders.acquire("@m1", HOUR, 10.0)
    assert leaders.store.notes[0] == StateNote(round((10.0 + HOUR + offset) * 1000), "@m1", 1 << 32 | 1)
    leaders.fail_over(clock_offset=2 * offset)
    assert leaders.share.in_flight.held_by("@m1")[0].deadline == 10.0 + HOUR - offset


def test_a_loaded_lock_ends_at_its_deadline_and_counts_as_a_delivery() -> None:
    leaders = Leaders()
    leaders.acquire("@m1", HOUR)
    leaders.fail_over()
    assert leaders.share.handle(Loaded(), 100.0).deadline == HOUR
    assert not leaders.share.handle(TimerFired(), HOUR - 0.001).lost
    effects = leaders.done(leaders.share.handle(TimerFired(), HOUR))
    assert [(lost.member, lost.first, lost.last) for lost in effects.lost] == [("@m1", 0, 4)]
    leaders.fail_over()
    assert picture(leaders.share) == "0-4 available 1"


def test_a_lock_that_ended_before_the_load_ends_at_once() -> None:
    leaders = Leaders()
    leaders.acquire("@m1", HOUR)
    leaders.fail_over()
    assert leaders.share.handle(Loaded(), 2 * HOUR).deadline == HOUR
    leaders.done(leaders.share.handle(TimerFired(), 2 * HOUR))
    assert leaders.acquire("@m2", 0.0, 2 * HOUR).acquired[0].delivery_count == 2


@pytest.mark.parametrize(
    ("kind", "blameless", "after"),
    [
        (RELEASE, False, "0-4 available 1"),
        (RELEASE, True, "0-4 available 0"),
        (REJECT, False, ""),
        (ACCEPT, False, ""),
    ],
)
def test_every_decision_clears_the_stored_lock(kind: int, blameless: bool, after: str) -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", HOUR))
    leaders.fail_over()
    leaders.acknowledge("0-4", kind, token, 1.0, blameless=blameless)
    leaders.fail_over()
    assert picture(leaders.share) == after
    assert not leaders.share.in_flight.due


def test_a_part_of_a_lock_is_accepted_and_the_rest_stays_locked() -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", HOUR))
    leaders.acknowledge("1-2", ACCEPT, token, 1.0)
    leaders.fail_over()
    assert picture(leaders.share, members=True) == "0 acquired 1 @m1, 1-2 acknowledged 1, 3-4 acquired 1 @m1"
    leaders.acknowledge("0", RENEW, token, 1.0, 2 * HOUR)
    leaders.fail_over()
    held = [(item.first, item.last, item.deadline) for item in leaders.share.in_flight.held_by("@m1")]
    assert held == [(0, 0, 1.0 + 2 * HOUR), (3, 4, HOUR)]


def test_a_renewal_stores_the_lock_before_its_reply() -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", 0.0))
    event = Acknowledge("@m1", acks("0-4", RENEW, token), leaders.reply, None, HOUR)
    effects = leaders.share.handle(event, 1.0)
    assert (effects.replies, effects.write_due) == ((), True)
    leaders.done(effects)
    assert leaders.replies == [None]
    leaders.fail_over()
    assert leaders.share.in_flight.held_by("@m1")[0].deadline == 1.0 + HOUR


@pytest.mark.parametrize("lock", [0.0, 5.0])
def test_a_short_renewal_clears_the_stored_lock(lock: float) -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", HOUR))
    leaders.acknowledge("0-4", RENEW, token, 1.0, lock)
    assert leaders.writes == ["0: 0-4 available 0"] * 2
    leaders.fail_over()
    assert picture(leaders.share) == "0-4 available 0"


def test_renewals_of_planned_batches_clear_the_stored_lock() -> None:
    for event in (RenewAll("@m1"), Reconcile("@m1", acks("0-4", RENEW), 0, 5, lambda _: None)):
        leaders = Leaders()
        leaders.acquire("@m1", HOUR)
        leaders.done(leaders.share.handle(event, 1.0))
        leaders.fail_over()
        assert picture(leaders.share) == "0-4 available 0"


def test_a_fenced_member_loses_its_durable_locks() -> None:
    leaders = Leaders()
    leaders.acquire("@m1", HOUR)
    leaders.fail_over()
    transition = leaders.share.release_member("@m1")
    assert transition is not None
    leaders.store.apply(leaders.share.write([transition]))
    leaders.fail_over()
    assert picture(leaders.share) == "0-4 available 1"


def test_a_failed_write_of_an_acquisition_is_retried_as_the_lock_is_then() -> None:
    leaders = Leaders()
    request = AcquireRequest("@m1", 100, 100, lock=HOUR)
    effects = leaders.share.handle(Acquire(request, 0, [(0, 4)]), 0.0)
    leaders.done(effects, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    leaders.acknowledge("0-1", ACCEPT, effects.acquired[0].token, 1.0)
    leaders.done(leaders.share.handle(TimerFired(), 10.0))
    leaders.fail_over()
    assert picture(leaders.share, members=True) == "2-4 acquired 1 @m1"


def test_a_failed_renewal_is_reported_once() -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", 0.0))
    error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    event = Acknowledge("@m1", acks("0-4", RENEW, token), leaders.reply, None, HOUR)
    leaders.done(leaders.share.handle(event, 1.0), error)
    assert leaders.replies == [error]
    leaders.done(leaders.share.handle(TimerFired(), 10.0))
    assert leaders.replies == [error]


def test_records_with_a_loaded_lock_count_as_locked() -> None:
    leaders = Leaders()
    leaders.acquire("@m1", HOUR)
    leaders.fail_over()
    assert leaders.share.in_flight.sizes() == (5, 1, 5, 5, 0, 0, 0)
    assert not leaders.share.unused


def test_a_late_retry_of_a_timeout_keeps_a_newer_lock() -> None:
    leaders = Leaders()
    leaders.acquire("@m1", 30.0)
    leaders.done(leaders.share.handle(TimerFired(), 30.0), KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    token = _token(leaders.acquire("@m2", HOUR, 30.0))
    leaders.done(leaders.share.handle(TimerFired(), 32.0))
    assert len(leaders.writes) == 2
    leaders.fail_over()
    (held,) = leaders.share.in_flight.held()
    assert (held.member, held.token, held.first, held.last, held.delivery_count) == ("@m2", token, 0, 4, 2)


@pytest.mark.parametrize("together", [False, True], ids=["after the release", "with the release"])
@pytest.mark.parametrize("delay", [0.0, 60.0])
def test_a_late_retry_of_a_timeout_keeps_a_newer_wait(delay: float, together: bool) -> None:
    leaders = Leaders(settings=SharePartitionSettings(backoff=BACKOFF))
    leaders.acquire("@m1", 30.0)
    failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leaders.done(leaders.share.handle(TimerFired(), 30.0), failure, 30.5)
    leaders.share.handle(TimerFired(), 31.0)
    leaders.acquire("@m2", 0.0, 31.0)
    event = Acknowledge("@m2", acks("0-2", RELEASE), leaders.reply, delay, blameless=True)
    released = leaders.share.handle(event, 32.0)
    if together:
        released.write_due |= leaders.share.handle(TimerFired(), 32.5).write_due
        leaders.done(released)
    else:
        leaders.done(released)
        leaders.done(leaders.share.handle(TimerFired(), 32.5))
    leaders.fail_over()
    delayed = f"0-2 available 1 from {32.0 + delay:g}, 3-4 available 1"
    assert picture(leaders.share) == (delayed if delay else "0-4 available 1")


def _released_in_vain(leaders: Leaders, token: int, *, stored: bool) -> None:
    """Releases all records; the write fails, and may be stored nevertheless."""
    event = Acknowledge("@m1", acks("0-4", RELEASE, token), leaders.reply)
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    leaders.done(leaders.share.handle(event, 1.0), error, stored=stored)
    assert leaders.replies == [error]
    assert picture(leaders.share, members=True) == "0-4 acquired 1 @m1"


@pytest.mark.parametrize("stored", [False, True])
def test_a_renewed_lock_survives_although_a_release_may_be_stored(stored: bool) -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", HOUR))
    _released_in_vain(leaders, token, stored=stored)
    leaders.acknowledge("0-2", RENEW, token, 2.0, HOUR)
    leaders.fail_over()
    held = [(item.first, item.last, item.token) for item in leaders.share.in_flight.held_by("@m1")]
    assert held == [(0, 2, token)] if stored else [(0, 4, token)]
    assert not {item.first for item in leaders.acquire("@m2", 0.0, 3.0).acquired} & {0, 1, 2}
    leaders.acknowledge("0-2", ACCEPT, token, 4.0)
    assert leaders.replies[1:] == [None, None]


def test_the_next_lock_survives_although_a_release_may_be_stored() -> None:
    leaders = Leaders()
    token = _token(leaders.acquire("@m1", 0.0))
    _released_in_vain(leaders, token, stored=True)
    leaders.done(leaders.share.handle(UndoAcquire("@m1", acks("0-4", RELEASE)), 2.0))
    assert picture(leaders.share) == "0-4 available 1"
    token = _token(leaders.acquire("@m2", HOUR, 3.0))
    leaders.fail_over()
    assert picture(leaders.share, members=True) == "0-4 acquired 2 @m2"
    assert leaders.share.in_flight.held_by("@m2")[0].token == token


def test_a_late_retry_of_a_timeout_keeps_a_lock_whose_release_may_be_stored() -> None:
    leaders = Leaders()
    leaders.acquire("@m1", 30.0)
    failure = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leaders.done(leaders.share.handle(TimerFired(), 30.0), failure)
    token = _token(leaders.acquire("@m1", HOUR, 30.5))
    event = Acknowledge("@m1", acks("0-4", RELEASE, token), leaders.reply)
    leaders.done(leaders.share.handle(event, 31.0), failure)
    leaders.done(leaders.share.handle(TimerFired(), 32.0))
    leaders.fail_over()
    assert leaders.share.in_flight.held_by("@m1")[0].token == token


def _of_session(leaders: Leaders, log: tuple[int, int] = (0, 4)) -> int:
    """Acquires for a session with long locks, and returns the token."""
    request = AcquireRequest("@m1", 100, 100, session="s1", lock=HOUR)
    return _token(leaders.done(leaders.share.handle(Acquire(request, log[0], [log]), 0.0)))


def test_a_lock_of_a_session_is_durable_once_it_is_renewed() -> None:
    leaders = Leaders()
    token = _of_session(leaders)
    assert not leaders.writes
    leaders.acknowledge("0-2", RENEW, token, 1.0, HOUR)
    leaders.done(leaders.share.handle(MembersLeft(("@m1",), "s1"), 2.0))
    assert picture(leaders.share, members=True) == "0-2 acquired 1 @m1, 3-4 available 1"
    leaders.fail_over()
    leaders.done(leaders.share.handle(MembersLeft(("@m1",), "s1"), 2.0))
    leaders.acknowledge("0-2", ACCEPT, token, 3.0)
    assert leaders.replies == [None, None]


def test_a_member_that_leaves_returns_durable_locks_without_a_delivery() -> None:
    for event in (MembersLeft(("@m1",), "s1", undo=True), UndoAcquire("@m1", acks("0-4", RELEASE))):
        leaders = Leaders()
        leaders.acknowledge("0-2", RENEW, _of_session(leaders), 1.0, HOUR)
        leaders.done(leaders.share.handle(event, 2.0))
        assert picture(leaders.share) == "0-4 available 0"
        leaders.fail_over()
        assert leaders.acquire("@m2", 0.0, 3.0).acquired[0].delivery_count == 1


def test_a_leader_that_retires_loses_only_locks_that_are_not_durable() -> None:
    leaders = Leaders()
    leaders.acknowledge("0-2", RENEW, _of_session(leaders), 1.0, HOUR)
    assert [(lost.first, lost.last) for lost in leaders.share.handle(Retire(), 2.0).lost] == [(3, 4)]
