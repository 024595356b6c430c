"""The checker detects a violation of each invariant, and none in valid histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sharebroker.inspection import StoredState, StoredStateRecord
from sharebroker.verification.rules import Evidence
from sharebroker.verification.runs import OffsetSpan, RecordLog
from tests.testkit.checker.checker import Checker
from tests.testkit.checker.events import (
    Addressed,
    Appended,
    Applied,
    Breaker,
    CallBegan,
    CallEnded,
    Claimed,
    Confirmed,
    Counted,
    DeadLetter,
    Delivered,
    Ended,
    Event,
    Expired,
    Forgotten,
    Happened,
    Healed,
    Held,
    Hidden,
    JournalRead,
    Kept,
    LagReported,
    LockLost,
    LogsRead,
    MemberLeft,
    Moved,
    Paused,
    Published,
    Recalled,
    Recovered,
    Requested,
    Reset,
    Resumed,
    Retried,
    Returned,
    Run,
    Share,
    StateRead,
    Stored,
    Undelivered,
    Verdict,
    WriteBegan,
    WriteEnded,
    Written,
)
from tests.testkit.checker.invariants import Invariant, Violation
from tests.testkit.checker.locks import Limits
from tests.testkit.tables import each

SHARE = Share("g", "orders", 0)
OTHER = Share("h", "orders", 0)
LIMITS = Limits(lock_duration=10.0, delivery_count=3, record_locks=2, skew=0.5, soon=5.0, late=0.5)
LETTERED = replace(LIMITS, dead_letters=True)
EPOCH = 1 << 32
AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 2, 3, 4


def published(offset: int = 0, value: str = "a") -> Published:
    return Published(0.0, "orders", 0, offset, value)


def written(value: str) -> Written:
    return Written(0.0, "orders", 0, value)


def confirmed(value: str) -> Confirmed:
    return Confirmed(0.0, "orders", 0, value)


def delivered(
    token: int, at: float = 1.0, member: str = "ann", count: int = 1, offset: int = 0, value: str = "a"
) -> Delivered:
    return Delivered(at, SHARE, offset, value, member, token, count, at + LIMITS.lock_duration)


def requested(verdict: Verdict, token: int, at: float = 2.0, offset: int = 0, ask: int = 0) -> Requested:
    return Requested(at, ask, SHARE, offset, token, verdict)


def applied(at: float = 3.0, ask: int = 0, deadline: float = 0.0) -> Applied:
    return Applied(at, ask, deadline)


def whole(*runs: Run, start: int = 0, state_epoch: int = 1, leader_epoch: int = 1) -> Stored:
    return Stored(0.0, SHARE, True, state_epoch, leader_epoch, start, runs)


def change(*runs: Run, start: int = -1, leader_epoch: int = -1, failed: tuple[int, ...] = ()) -> Stored:
    return Stored(2.0, SHARE, False, -1, leader_epoch, start, runs, failed)


def logs_read(start: int = 1, log_start: int = 0, missing: tuple[OffsetSpan, ...] = ()) -> LogsRead:
    """A checkpoint that starts at 1, its coordinator's state, and a record log of four."""
    checkpoint = StoredStateRecord(kind="checkpoint", start_offset=1, state_epoch=1)
    live = StoredStateRecord(kind="checkpoint", start_offset=start, state_epoch=1)
    stored = StoredState(records=(checkpoint,), live=live)
    return LogsRead(9.0, SHARE, Evidence(stored, RecordLog(log_start, 4, missing=missing), 1, 5))


TWO_FAILED: list[Event] = [whole(start=0), Expired(0.0, "orders", 0, 0, 1), change(start=2, failed=(0, 1))]

ACCEPTED_AND_STORED = [
    whole(start=0),
    delivered(1, offset=1),
    requested(Verdict.ACCEPT, 1, offset=1),
    change(Run(1, 1, ACKNOWLEDGED, 1)),
    applied(),
]


def delayed(again_at: float, token: int = 2, streamed: bool = True) -> list[Event]:
    """A stream receives a record after the recovery, delays it by 10 s until 13.0, and receives it again."""
    first, again = delivered(1), delivered(token, at=again_at, count=2)
    return [
        Recovered(0.5),
        replace(first, streamed=True),
        replace(requested(Verdict.RELEASE, 1), delay=10.0),
        applied(),
        replace(again, streamed=streamed),
    ]


def prompt(at: float, streamed: bool = True, recovered: float = 0.5) -> list[Event]:
    """A stream is served, and receives a record that was published later, at 5.0."""
    return [
        Healed(0.0),
        Recovered(recovered),
        replace(delivered(1), streamed=streamed),
        replace(published(1), at=5.0),
        replace(delivered(2, at=at, offset=1), streamed=streamed),
    ]


BROKEN: dict[str, tuple[Invariant, Sequence[Event]]] = {
    "a delayed record is delivered before its time": (
        Invariant.NOT_EARLY,
        [whole(start=0), change(Run(0, 0, AVAILABLE, 1, 9.0)), delivered(1, at=8.4, count=2)],
    ),
    "a record of a deleted topic is delivered for another": (
        Invariant.RECREATED,
        [Returned(0.0, SHARE, 0, "a", "b")],
    ),
    "a record of a topic that was created again is not delivered": (
        Invariant.RECREATED,
        [Undelivered(0.0, "orders", (0,))],
    ),
    "a paused group receives a record": (Invariant.PAUSED, [Paused(0.0, "g"), delivered(1)]),
    "a group is not paused although its records fail": (
        Invariant.BREAKS,
        [Breaker(0.0, "g", paused=False, expected=True)],
    ),
    "a resumed group is paused without new failures": (
        Invariant.RESUMES,
        [Resumed(0.0, "g"), Breaker(1.0, "g", paused=True, expected=False)],
    ),
    "an expired record is delivered": (
        Invariant.NOT_EXPIRED,
        [Expired(0.0, "orders", 0, 0, 2), delivered(1, offset=1)],
    ),
    "a record that another cluster kept is not delivered": (
        Invariant.NOT_HIDDEN,
        [Kept(0.0, "orders", ((1, "value"),), ())],
    ),
    "state of share groups is delivered": (
        Invariant.STATE_HIDDEN,
        [Hidden(0.0, "orders", 0, 0, 2), delivered(1, offset=1)],
    ),
    "a rejected record is not listed": (
        Invariant.LISTED_ONCE,
        [whole(start=0), delivered(1), requested(Verdict.REJECT, 1), change(start=1)],
    ),
    "an expired record is not listed": (
        Invariant.LISTED_ONCE,
        [whole(start=0), Expired(0.0, "orders", 0, 0, 0), change(start=1)],
    ),
    "a rejected record is listed again": (
        Invariant.LISTED_ONCE,
        [
            whole(start=0),
            delivered(1),
            requested(Verdict.REJECT, 1),
            change(start=1, failed=(0,)),
            change(start=1, failed=(0,)),
        ],
    ),
    "a record is listed twice": (
        Invariant.LISTED_ONCE,
        [whole(start=0), delivered(1), requested(Verdict.REJECT, 1), change(start=1, failed=(0, 0))],
    ),
    "a failed record is missing in the list": (
        Invariant.LISTED_ONCE,
        [*TWO_FAILED, JournalRead(3.0, SHARE, (0,), 0)],
    ),
    "a failed record is twice in the list": (
        Invariant.LISTED_ONCE,
        [*TWO_FAILED, JournalRead(3.0, SHARE, (0, 0), 0)],
    ),
    "a record is listed that did not fail": (
        Invariant.LISTED_ONCE,
        [*TWO_FAILED, JournalRead(3.0, SHARE, (0, 2), 0)],
    ),
    "the newer of two times counts": (
        Invariant.NOT_EARLY,
        [
            whole(start=0),
            change(Run(0, 0, AVAILABLE, 1, 5.0)),
            change(Run(0, 0, AVAILABLE, 1, 9.0)),
            delivered(1, at=8.4, count=2),
        ],
    ),
    "a record changes its value": (
        Invariant.NEVER_LOST,
        [published(value="a"), delivered(1, value="b")],
    ),
    "two producers receive one offset": (
        Invariant.NEVER_LOST,
        [published(value="a"), published(value="b")],
    ),
    "a log is written below its end": (
        Invariant.NEVER_LOST,
        [Appended(0.0, "log", 1, 0, 4), Appended(1.0, "log", 1, 4, 5)],
    ),
    "an idempotent producer confirms what was never written": (
        Invariant.NEVER_LOST,
        [written("a"), confirmed("b")],
    ),
    "a record of an idempotent producer is written twice": (
        Invariant.STORED_ONCE,
        [written("a"), confirmed("a"), written("a")],
    ),
    "a published record is not delivered": (Invariant.NEVER_LOST, [published(), Ended(100.0)]),
    "the start passes an unfinished record": (
        Invariant.NEVER_LOST,
        [whole(start=0), delivered(1), change(start=1)],
    ),
    "a record is finished without an acknowledgement": (
        Invariant.NEVER_LOST,
        [whole(start=0), change(Run(0, 0, ARCHIVED, 1))],
    ),
    "stored runs overlap": (
        Invariant.ONE_STATE,
        [whole(Run(0, 3, AVAILABLE, 1), Run(3, 4, AVAILABLE, 2))],
    ),
    "a locked record is delivered to a second member": (
        Invariant.ONE_HOLDER,
        [delivered(1, at=1.0), delivered(2, at=9.0, member="bob", count=2)],
    ),
    "a late response shows two holders": (
        Invariant.ONE_HOLDER,
        [delivered(2, at=9.0, member="bob", count=2), delivered(1, at=1.0)],
    ),
    "a renewed record is delivered to a second member": (
        Invariant.ONE_HOLDER,
        [
            delivered(1, at=1.0),
            requested(Verdict.RENEW, 1, at=10.0),
            applied(10.0, deadline=20.0),
            delivered(2, at=12.0, member="bob", count=2),
        ],
    ),
    "one acquisition is delivered twice": (Invariant.ONE_HOLDER, [delivered(1), delivered(1)]),
    "a former holder accepts": (
        Invariant.FORMER_HOLDER_REFUSED,
        [
            delivered(1, at=1.0),
            requested(Verdict.ACCEPT, 1, at=11.5),
            delivered(2, at=12.0, member="bob", count=2),
            applied(13.0),
        ],
    ),
    "a former holder releases": (
        Invariant.FORMER_HOLDER_REFUSED,
        [
            delivered(1, at=1.0),
            delivered(2, at=12.0, member="bob", count=2),
            requested(Verdict.RELEASE, 1, at=12.5),
            applied(13.0),
        ],
    ),
    "a member renews after its release": (
        Invariant.FORMER_HOLDER_REFUSED,
        [
            delivered(1, at=1.0),
            requested(Verdict.RETURN, 1),
            applied(),
            requested(Verdict.RENEW, 1, at=3.5, ask=1),
            applied(4.0, ask=1),
        ],
    ),
    "an accepted record is redelivered": (
        Invariant.FINISHED_STAYS,
        [delivered(1), requested(Verdict.ACCEPT, 1), applied(), delivered(2, at=20.0, count=2)],
    ),
    "an accepted record is redelivered by the next leader": (
        Invariant.FINISHED_STAYS,
        [delivered(EPOCH), requested(Verdict.ACCEPT, EPOCH), applied(), delivered(2 * EPOCH, at=4.0)],
    ),
    "an accepted record is redelivered by a former leader": (
        Invariant.FINISHED_STAYS,
        [
            delivered(2 * EPOCH),
            requested(Verdict.ACCEPT, 2 * EPOCH),
            applied(3.0),
            delivered(EPOCH, at=3.6),
        ],
    ),
    "a record released at the delivery limit is redelivered": (
        Invariant.FINISHED_STAYS,
        [
            delivered(EPOCH, count=3),
            requested(Verdict.RELEASE, EPOCH),
            applied(),
            delivered(2 * EPOCH, at=4.0, count=1),
        ],
    ),
    "a finished record becomes available in the log": (
        Invariant.FINISHED_STAYS,
        [*ACCEPTED_AND_STORED, change(Run(1, 1, AVAILABLE, 2))],
    ),
    "a checkpoint omits a finished record": (
        Invariant.FINISHED_STAYS,
        [*ACCEPTED_AND_STORED, whole(start=0)],
    ),
    "an exhausted record becomes available in the log": (
        Invariant.FINISHED_STAYS,
        [whole(Run(1, 1, ARCHIVED, 3)), whole(Run(1, 1, AVAILABLE, 3))],
    ),
    "a response precedes its record in the log": (
        Invariant.DURABLE_BEFORE_ANSWERED,
        [whole(start=0), delivered(1), requested(Verdict.ACCEPT, 1), applied()],
    ),
    "the delivery count does not increase": (
        Invariant.COUNT_RISES,
        [delivered(1), requested(Verdict.RELEASE, 1), applied(), delivered(2, at=4.0, count=1)],
    ),
    "the stored delivery count does not increase": (
        Invariant.COUNT_RISES,
        [
            whole(start=0),
            delivered(1),
            change(Run(0, 0, AVAILABLE, 1)),
            delivered(2, at=20.0, count=1),
        ],
    ),
    "the delivery count increases by two": (
        Invariant.COUNT_RISES,
        [delivered(1), requested(Verdict.RELEASE, 1), applied(), delivered(2, at=4.0, count=3)],
    ),
    "the next leader ignores the stored delivery count": (
        Invariant.COUNT_RISES,
        [
            delivered(EPOCH, count=2),
            requested(Verdict.RELEASE, EPOCH),
            applied(),
            delivered(2 * EPOCH, at=4.0, count=2),
        ],
    ),
    "a record exceeds the delivery limit": (Invariant.COUNT_LIMIT, [delivered(9, count=4)]),
    "the start offset decreases": (
        Invariant.START_NEVER_BACK,
        [whole(start=5), change(start=4)],
    ),
    "a state loses its start offset": (
        Invariant.START_NEVER_BACK,
        [whole(start=0), whole(start=-1, state_epoch=2)],
    ),
    "the start offset decreases again after an administrator's change": (
        Invariant.START_NEVER_BACK,
        [whole(start=5), Reset(1.0, SHARE), whole(start=3, state_epoch=2), change(start=2)],
    ),
    "an administrator's change has the old state epoch": (
        Invariant.START_NEVER_BACK,
        [whole(start=5), Reset(1.0, SHARE), whole(start=3)],
    ),
    "a delta decreases the start offset during an administrator's change": (
        Invariant.START_NEVER_BACK,
        [whole(start=5), Reset(1.0, SHARE), change(start=3)],
    ),
    "an administrator's change is confirmed and missing from the log": (
        Invariant.DURABLE_BEFORE_ANSWERED,
        [whole(start=5), Reset(1.0, SHARE), Moved(2.0, SHARE, 7)],
    ),
    "a later leader delivers a record below the altered start offset": (
        Invariant.FINISHED_STAYS,
        [
            whole(start=0),
            Reset(1.0, SHARE),
            whole(start=3, state_epoch=2),
            Moved(2.0, SHARE, 3),
            delivered(9 * EPOCH, offset=2),
        ],
    ),
    "state is deleted without an administrator": (
        Invariant.NEVER_LOST,
        [whole(start=5), Forgotten(1.0, SHARE)],
    ),
    "state is deleted when an administrator is done": (
        Invariant.NEVER_LOST,
        [
            whole(start=5),
            Reset(1.0, SHARE),
            Forgotten(2.0, SHARE),
            Moved(3.0, SHARE, -1),
            Forgotten(4.0, SHARE),
        ],
    ),
    "a record accepted without a token is redelivered": (
        Invariant.FINISHED_STAYS,
        [
            delivered(1),
            Requested(1.0, 0, SHARE, 0, 1, Verdict.ACCEPT, by_token=False),
            applied(),
            delivered(2, at=30.0),
        ],
    ),
    "the lock limit is exceeded": (
        Invariant.IN_FLIGHT_LIMIT,
        [delivered(1, offset=offset) for offset in range(3)],
    ),
    "a stale lease writes": (
        Invariant.EPOCHS_RISE,
        [Appended(0.0, "log", 2, 0, 0), Appended(1.0, "log", 1, 1, 1)],
    ),
    "a write carries the epoch of a former owner": (
        Invariant.EPOCHS_RISE,
        [Appended(0.0, "log", 1, 0, 0), Claimed(1.0, "log", 2), Appended(1.0, "log", 1, 1, 1)],
    ),
    "a stale leader's state is stored": (
        Invariant.EPOCHS_RISE,
        [whole(leader_epoch=3), change(leader_epoch=2)],
    ),
    "state of a stale epoch is stored": (
        Invariant.EPOCHS_RISE,
        [whole(state_epoch=3), whole(state_epoch=2)],
    ),
    "two leaders at once": (
        Invariant.EPOCHS_RISE,
        [delivered(2 * EPOCH, at=1.0), delivered(EPOCH, at=1.6, offset=1)],
    ),
    "a write of a former leader succeeds": (
        Invariant.EPOCHS_RISE,
        [whole(leader_epoch=3), WriteBegan(1.0, 7, SHARE, 1, 2), WriteEnded(2.0, 7)],
    ),
    "a write with an old state epoch succeeds": (
        Invariant.EPOCHS_RISE,
        [whole(state_epoch=3), WriteBegan(1.0, 7, SHARE, 2, 1), WriteEnded(2.0, 7)],
    ),
    "verify finds an inconsistent state": (Invariant.VERIFIED, [logs_read(start=2)]),
    "verify finds missing records in the record log": (
        Invariant.VERIFIED,
        [logs_read(missing=(OffsetSpan(2, 2),))],
    ),
    "memory and log differ": (
        Invariant.REPLAY_AGREES,
        [whole(Run(0, 0, AVAILABLE, 2)), StateRead(9.0, SHARE, 0, (Run(0, 0, AVAILABLE, 1),))],
    ),
    "the start offset in memory differs": (
        Invariant.REPLAY_AGREES,
        [whole(start=1), StateRead(9.0, SHARE, 0, ())],
    ),
    "the lag is wrong": (Invariant.LAG_AGREES, [whole(start=1), LagReported(9.0, SHARE, 4, 2)]),
    "an available record is not delivered in time": (
        Invariant.IN_TIME,
        [published(), Healed(10.0), delivered(1, at=15.5)],
    ),
    "a new record is not delivered in time to a stream that has no other": (
        Invariant.IN_TIME,
        prompt(5.6),
    ),
    "a delay ends late": (Invariant.ON_TIME, delayed(13.6)),
    "a delay ends early by the clock of its leader": (Invariant.NOT_EARLY, delayed(11.8)),
    "a record whose lock timed out is not delivered in time": (
        Invariant.IN_TIME,
        [Healed(0.0), published(), delivered(1, at=1.0), delivered(2, at=17.0, count=2)],
    ),
    "a group does not drain": (Invariant.DRAINS, [published(), delivered(1), Ended(100.0)]),
    "a record in the log stays unfinished": (
        Invariant.DRAINS,
        [published(), whole(start=0), delivered(1), requested(Verdict.ACCEPT, 1), Ended(100.0)],
    ),
    "a call is late": (
        Invariant.CALLS_END,
        [CallBegan(0.0, 1, "fetch", 5.0), CallEnded(5.6, 1)],
    ),
    "a call never ends": (Invariant.CALLS_END, [CallBegan(0.0, 1, "fetch", 5.0), Ended(6.0)]),
    "a record with a durable lock is redelivered": (
        Invariant.RUNS_ONCE,
        [delivered(1), Held(1.0, SHARE, 0, 1, 9.0), delivered(EPOCH, at=8.9, member="bob", count=2)],
    ),
    "a durable lock is confirmed after another acquisition": (
        Invariant.RUNS_ONCE,
        [delivered(1), delivered(EPOCH, at=8.9, member="bob"), Held(9.0, SHARE, 0, 1, 19.0)],
    ),
    "a scheduled record is delivered before its time": (
        Invariant.NOT_EARLY,
        [delivered(1, at=8.4, value="due 9.000 a")],
    ),
    "a recalled record is delivered": (
        Invariant.NOT_RECALLED,
        [Recalled(0.5, "orders", 0, 0, confirmed=True), delivered(1)],
    ),
    "a copy is delivered to another group": (
        Invariant.FOR_ITS_GROUP,
        [Addressed(0.5, OTHER, 9, 0, "a"), delivered(1)],
    ),
    "a copy is a failed record of another group": (
        Invariant.FOR_ITS_GROUP,
        [whole(start=0), Addressed(0.5, OTHER, 9, 0, "a"), change(start=1, failed=(0,))],
    ),
    "a record is copied twice": (
        Invariant.COPIED_ONCE,
        [Addressed(0.5, SHARE, 0, 7, "a"), Addressed(0.6, SHARE, 0, 8, "a")],
    ),
    "a copy has another value": (
        Invariant.COPIED_ONCE,
        [published(), Addressed(0.5, SHARE, 0, 7, "another")],
    ),
    "a copy that is confirmed was not written": (Invariant.COPIED_ONCE, [Retried(0.5, SHARE, 0, 7)]),
    "a copy is never delivered to its group": (
        Invariant.NEVER_LOST,
        [Addressed(0.5, SHARE, 9, 0, "a"), Retried(0.6, SHARE, 9, 0), Ended(100.0)],
    ),
    "tasks remain": (Invariant.NOTHING_LEAKS, [Counted(9.0, "tasks", 3, 4)]),
}

REJECTED: list[Event] = [
    published(),
    whole(start=0),
    delivered(1),
    requested(Verdict.REJECT, 1),
    change(Run(0, 0, ARCHIVING, 1), failed=(0,)),
    applied(),
]
"""A record was rejected, and waits for its letter."""


def letter(offset: int = 0, value: str | None = "a", *, rejected: bool = True) -> DeadLetter:
    return DeadLetter(4.0, SHARE, offset, rejected, value)


BROKEN_BY_LETTERS: dict[str, tuple[Invariant, Sequence[Event]]] = {
    "a letter is written twice": (Invariant.LETTER_ONCE, [*REJECTED, letter(), letter()]),
    "a letter is written again after the state was initialised again": (
        Invariant.LETTER_ONCE,
        [*REJECTED, letter(), whole(Run(0, 0, ARCHIVING, 1), state_epoch=2), letter()],
    ),
    "a record is archived without a letter": (
        Invariant.LETTER_ONCE,
        [*REJECTED, change(Run(0, 0, ARCHIVED, 1))],
    ),
    "the start offset passes an archiving record": (Invariant.LETTER_ONCE, [*REJECTED, change(start=1)]),
    "a failed record is archived at once": (
        Invariant.LETTER_ONCE,
        [*REJECTED[:4], change(Run(0, 0, ARCHIVED, 1), failed=(0,))],
    ),
    "a record waits for its letter at the end": (
        Invariant.DRAINS,
        [*REJECTED, Healed(5.0), Ended(100.0)],
    ),
    "a letter is written before the state": (Invariant.LETTER_OF_FAILURE, [*REJECTED[:4], letter()]),
    "a letter of a record that no member rejected": (
        Invariant.LETTER_OF_FAILURE,
        [published(), whole(start=0), delivered(1), letter()],
    ),
    "an accepted record waits for a letter": (
        Invariant.LETTER_OF_FAILURE,
        [
            published(),
            whole(start=0),
            delivered(1),
            requested(Verdict.ACCEPT, 1),
            change(Run(0, 0, ARCHIVING, 1), failed=(0,)),
        ],
    ),
    "a letter has another value": (Invariant.LETTER_OF_FAILURE, [*REJECTED, letter(value="b")]),
    "an archiving record is redelivered": (
        Invariant.FINISHED_STAYS,
        [*REJECTED, delivered(2, at=5.0, count=2)],
    ),
    "an archiving record is available again": (
        Invariant.FINISHED_STAYS,
        [*REJECTED, change(Run(0, 0, AVAILABLE, 2))],
    ),
    "an archiving record is listed again": (
        Invariant.LISTED_ONCE,
        [*REJECTED, letter(), change(Run(0, 0, ARCHIVED, 1), failed=(0,))],
    ),
}

SOUND_WITH_LETTERS: dict[str, Sequence[Event]] = {
    "a rejected record is archived with its letter": [
        *REJECTED,
        letter(),
        change(Run(0, 0, ARCHIVED, 1)),
        change(start=1),
        Ended(100.0),
    ],
    "the state after the letter is written with the start offset": [*REJECTED, letter(), change(start=1)],
    "an exhausted record has a letter": [
        whole(start=0),
        change(Run(0, 0, AVAILABLE, 2)),
        change(Run(0, 0, ARCHIVING, 3), failed=(0,)),
        letter(value=None, rejected=False),
        change(start=1),
    ],
    "an expired record has a letter": [
        whole(start=0),
        Expired(0.0, "orders", 0, 0, 0),
        change(Run(0, 0, ARCHIVING, 1), failed=(0,)),
        letter(value=None, rejected=False),
        change(start=1),
    ],
    "a rejection that was applied without a response is replaced": [
        *REJECTED[:5],
        requested(Verdict.ACCEPT, 1, ask=1),
        change(start=1),
    ],
    "a record fails again after an administrator's change": [
        *REJECTED,
        letter(),
        Reset(4.0, SHARE),
        whole(start=0, state_epoch=2),
        Moved(5.0, SHARE, 0),
        letter(),
    ],
}

SOUND: dict[str, Sequence[Event]] = {
    "the records of a topic that was created again are delivered": [
        Returned(0.0, SHARE, 0, "a", "a"),
        Undelivered(0.0, "orders", ()),
    ],
    "an acceptance is confirmed after its topic was deleted": [
        whole(start=0),
        delivered(1),
        requested(Verdict.ACCEPT, 1),
        Reset(2.5, SHARE),
        Forgotten(2.6, SHARE),
        applied(),
    ],
    "a group is paused, resumed, and receives records": [
        Breaker(0.0, "g", paused=True, expected=True),
        Paused(0.0, "g"),
        Resumed(0.5, "g"),
        delivered(1),
        Breaker(1.5, "g", paused=False, expected=False),
    ],
    "a paused group does not affect another": [Paused(0.0, "shipping"), delivered(1)],
    "a scheduled record is delivered soon after its time": [
        Healed(0.0),
        published(value="due 9.000 a"),
        delivered(1, at=9.0, value="due 9.000 a"),
    ],
    "a record whose recall was not confirmed is delivered": [
        Recalled(0.5, "orders", 0, 0, confirmed=False),
        delivered(1),
    ],
    "a recalled record is finished without a delivery": [
        whole(start=0),
        Recalled(0.5, "orders", 0, 0, confirmed=False),
        change(Run(0, 0, ARCHIVED, 0)),
    ],
    "a copy for another group is finished without a delivery": [
        whole(start=0),
        Addressed(0.5, OTHER, 9, 0, "a"),
        Retried(0.6, OTHER, 9, 0),
        change(Run(0, 0, ARCHIVED, 0)),
        Ended(100.0),
    ],
    "a copy is delivered to its group": [Addressed(0.5, SHARE, 9, 0, "a"), delivered(1)],
    "a record is redelivered after its durable lock": [
        delivered(1),
        Held(1.0, SHARE, 0, 1, 9.0),
        delivered(EPOCH, at=9.0, member="bob", count=2),
    ],
    "accepted once": [published(), delivered(1), requested(Verdict.ACCEPT, 1), applied(), Ended(100.0)],
    "the response to an accept is lost": [
        published(),
        delivered(1),
        requested(Verdict.ACCEPT, 1),
        Ended(100.0),
    ],
    "a delay ends in time": delayed(13.5),
    "a delay ends late for a call, which may be late": delayed(13.6, streamed=False),
    "a delay ends under another leader": delayed(11.8, token=EPOCH + 1),
    "a new record arrives in time": prompt(5.5),
    "a new record arrives late by a call": prompt(5.6, streamed=False),
    "a new record arrives late before the recovery": prompt(5.6, recovered=20.0),
    "a record arrives after the lock of a lost response": [
        *prompt(5.5)[:-1],
        replace(delivered(2, at=9.5, count=2, offset=1), streamed=True),
    ],
    "notes are not verified": [Happened(0.0, "a process is killed")],
    "the lock times out": [delivered(1, at=1.0), delivered(2, at=11.0, member="bob", count=2)],
    "the leader reports the lost lock": [
        delivered(1, at=1.0),
        LockLost(4.0, SHARE, 0, 1),
        delivered(2, at=5.0, count=2),
    ],
    "an expired record is finished without a request": [
        whole(start=0),
        Expired(0.0, "orders", 0, 0, 2),
        change(start=3, failed=(0, 1, 2)),
    ],
    "the holder leaves": [delivered(1, at=1.0), MemberLeft(4.0, "g", "ann"), delivered(2, at=5.0, count=2)],
    "another member leaves": [
        delivered(1, at=1.0),
        MemberLeft(4.0, "g", "bob"),
        delivered(2, at=11.0, count=2),
    ],
    "two deliveries whose replies are lost": [delivered(1, at=1.0), delivered(4, at=31.0, count=3)],
    "an acquisition is undone": [
        delivered(1),
        requested(Verdict.UNSEEN, 1),
        applied(),
        delivered(2, at=4.0, count=1),
    ],
    "a record is returned by a blameless release": [
        delivered(1, count=3),
        requested(Verdict.RETURN, 1),
        applied(),
        delivered(2, at=4.0, count=3),
    ],
    "a new leader continues from the stored delivery count": [
        delivered(EPOCH, count=1),
        delivered(2 * EPOCH, at=2.0, member="bob", count=1),
    ],
    "a leader reloads its state after its epoch increased": [
        whole(state_epoch=1, leader_epoch=1),
        delivered(EPOCH, count=2),
        whole(state_epoch=2, leader_epoch=1),
        delivered(EPOCH + 1, at=2.0, member="bob", count=1),
    ],
    "an unconfirmed accept in the log is undone": [
        whole(start=0),
        requested(Verdict.ACCEPT, 1, offset=1),
        change(Run(1, 1, ACKNOWLEDGED, 1)),
        change(Run(1, 1, AVAILABLE, 2)),
    ],
    "a leader loses a delivery count that was not stored": [
        whole(start=0),
        delivered(1),
        delivered(2, at=20.0, count=1),
    ],
    "a former holder's renewal is rejected": [
        delivered(1, at=1.0),
        delivered(2, at=12.0, member="bob", count=2),
        requested(Verdict.RENEW, 1, at=13.0),
    ],
    "a record is finished in the log before the response": [
        published(),
        whole(start=0),
        delivered(1),
        requested(Verdict.ACCEPT, 1),
        change(Run(0, 0, ACKNOWLEDGED, 1)),
        applied(),
        change(start=1),
        StateRead(9.0, SHARE, 1, ()),
        LagReported(9.0, SHARE, 1, 0),
        Ended(100.0),
    ],
    "a last delivery whose reply is lost": [
        whole(start=0),
        change(Run(0, 0, AVAILABLE, 2)),
        change(start=1, failed=(0,)),
    ],
    "failed records are listed, and some dropped": [
        *TWO_FAILED,
        JournalRead(3.0, SHARE, (0, 1), 0),
        JournalRead(3.0, SHARE, (1,), 1),
    ],
    "a record whose rejection was undone fails again": [
        whole(start=0),
        requested(Verdict.REJECT, 1),
        change(Run(0, 0, ARCHIVED, 1), failed=(0,)),
        change(Run(0, 0, AVAILABLE, 2)),
        change(Run(0, 0, ARCHIVED, 3), failed=(0,)),
        JournalRead(3.0, SHARE, (0,), 0),
    ],
    "a deleted state lists nothing": [
        *TWO_FAILED,
        Reset(4.0, SHARE),
        Forgotten(4.0, SHARE),
        JournalRead(5.0, SHARE, (), 0),
    ],
    "an administrator decreases the start offset": [
        delivered(EPOCH),
        requested(Verdict.ACCEPT, EPOCH),
        applied(),
        whole(start=5),
        Reset(4.0, SHARE),
        whole(start=0, state_epoch=2),
        delivered(2 * EPOCH, at=5.0),
    ],
    "a write in flight at a leader change succeeds": [
        whole(leader_epoch=1),
        WriteBegan(1.0, 7, SHARE, 1, 1),
        change(leader_epoch=2),
        WriteEnded(2.0, 7),
    ],
    "a write of a former leader is rejected": [whole(leader_epoch=3), WriteBegan(1.0, 7, SHARE, 1, 2)],
    "verify finds nothing, or has a remark": [logs_read(), logs_read(log_start=2)],
    "a group begins again": [
        delivered(EPOCH),
        requested(Verdict.ACCEPT, EPOCH),
        whole(start=0),
        change(start=1),
        applied(),
        Reset(4.0, SHARE),
        change(start=2),
        Forgotten(4.5, SHARE),
        Moved(5.0, SHARE, -1),
        whole(start=-1, state_epoch=2),
        delivered(2 * EPOCH, at=5.0),
    ],
    "a leader has not loaded the altered state": [
        whole(start=0),
        whole(start=0),
        Reset(1.0, SHARE),
        whole(start=3, state_epoch=2),
        Moved(2.0, SHARE, 3),
        delivered(1, offset=2),
    ],
    "the greater of two entries of an offset counts": [
        whole(start=0),
        change(Run(0, 3, AVAILABLE, 2), Run(2, 2, AVAILABLE, 1)),
        change(Run(3, 3, AVAILABLE, 1)),
        StateRead(9.0, SHARE, 0, (Run(0, 3, AVAILABLE, 2),)),
    ],
    "the start is set for the first time": [whole(start=-1), change(start=7)],
    "locks of an earlier leader count no more": [
        delivered(EPOCH, offset=0),
        delivered(EPOCH, offset=1),
        delivered(2 * EPOCH, offset=2),
    ],
    "on time": [CallBegan(0.0, 1, "fetch", 5.0), CallEnded(5.4, 1), Counted(9.0, "tasks", 3, 3)],
    "a delayed record is delivered at its time": [
        whole(start=0),
        change(Run(0, 0, AVAILABLE, 1, 9.0)),
        delivered(1, at=8.6, count=2),
    ],
    "a delay ended": [
        whole(start=0),
        change(Run(0, 0, AVAILABLE, 1, 9.0)),
        change(Run(0, 0, AVAILABLE, 1)),
        delivered(1, at=5.0, count=2),
    ],
    "a delay prolongs the time to delivery": [
        published(),
        Healed(10.0),
        whole(start=0),
        change(Run(0, 0, AVAILABLE, 1, 20.0)),
        delivered(1, at=24.0, count=2),
    ],
    "in time": [published(), Healed(10.0), delivered(1, at=14.0), delivered(2, at=28.0, count=2)],
}


def judge(history: Sequence[Event], limits: Limits = LIMITS) -> None:
    checker = Checker(limits, ["g"])
    for event in history:
        checker.feed(event)


@each("name", BROKEN)
def test_violation_is_detected(name: str) -> None:
    invariant, history = BROKEN[name]
    judge(history[:-1])
    with pytest.raises(Violation) as found:
        judge(history)
    assert found.value.invariant is invariant


def test_every_invariant_has_a_violation() -> None:
    broken = {**BROKEN, **BROKEN_BY_LETTERS}
    assert {invariant for invariant, _ in broken.values()} == set(Invariant)


@each("name", BROKEN_BY_LETTERS)
def test_violation_with_dead_letters_is_detected(name: str) -> None:
    invariant, history = BROKEN_BY_LETTERS[name]
    judge(history[:-1], LETTERED)
    with pytest.raises(Violation) as found:
        judge(history, LETTERED)
    assert found.value.invariant is invariant


@each("name", SOUND_WITH_LETTERS)
def test_valid_history_with_dead_letters_passes(name: str) -> None:
    judge(SOUND_WITH_LETTERS[name], LETTERED)


@each("name", SOUND)
def test_valid_history_passes(name: str) -> None:
    judge(SOUND[name])


def test_unfinished_records_are_counted_per_group() -> None:
    checker = Checker(LIMITS, ["g", "h"])
    for event in (published(0), published(1), delivered(1), requested(Verdict.ACCEPT, 1), applied()):
        checker.feed(event)
    assert checker.unfinished() == 3
