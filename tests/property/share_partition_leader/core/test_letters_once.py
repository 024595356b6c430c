"""One letter and one entry in the journal per failure: leader, share coordinator and dead letter topic.

The state writes, the requests with letters and the responses of both may be lost, late or repeated. Leaders
fail over, and the group coordinator repeats the initialisation of the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AckBatch, StateWrite
from sharebroker_server.share_coordinator.core.commands import (
    FailedReply,
    Initialize,
    ReadFailed,
    ReadReply,
    Write,
)
from sharebroker_server.share_partition_leader.core import archiving
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    Acquire,
    AcquireRequest,
    LettersWritten,
    Loaded,
    LoadedState,
    Retire,
    SharePartitionSettings,
    TimerFired,
    WriteCompleted,
)
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.letter_note import (
    LetterNote,
    Range,
    check_request,
    plan_letters,
)
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from tests.unit.share_coordinator.harness import KEY, Shard, read

RECORDS = 6
REJECT = 3
MEMBER = "7/user@m1"
LIMITS = SharePartitionSettings(delivery_count_limit=3, dead_letters=True, longest_journal=100)
OK, LOST, UNKNOWN, LATE = range(4)


class Request(NamedTuple):
    """Letters on their way: the state epoch in the key of the note, and the arguments of `plan_letters`."""

    state_epoch: int
    sent: tuple[int, int]
    offsets: Sequence[int]
    still_archiving: Sequence[Range]


class System:
    """A share-partition of six records, which every member rejects or holds too long."""

    def __init__(self) -> None:
        self.now = 0.0
        self.letters: Counter[tuple[int, int]] = Counter()
        self._notes: dict[int, LetterNote] = {}
        self._sequence = 0
        self._state_epoch, self._leader_epoch = 1, 1
        self._late_writes: list[StateWrite] = []
        self._late_requests: list[Request] = []
        self._open: Request | None = None
        self._shard = Shard()
        self._shard.run(Initialize(KEY, 1, 0, start_has_epoch=True))
        self._core = self._load()

    # Steps

    def fail(self, chosen: int, _: int) -> None:
        """Acquires what is available, and rejects some of it."""
        offset = self._core.fetch_offset(0, RECORDS)
        if offset is not None:
            log = [(each, each) for each in range(offset, RECORDS)]
            self._core.handle(Acquire(AcquireRequest(MEMBER, RECORDS, RECORDS), offset, log), self.now)
        for run in list(self._core.in_flight.runs):
            for each in range(run.first, run.last + 1):
                if run.lock is not None and run.pending is None and chosen >> each & 1:
                    self._reject(each)

    def wait(self, _: int, __: int) -> None:
        """Locks time out, and failed writes are repeated."""
        self.now += 31.0
        self._core.handle(TimerFired(), self.now)

    def write(self, _: int, outcome: int) -> None:
        """Sends the state write that is due."""
        write = self._core.next_write() if self._core.writing else None
        if write is None:
            return
        error = None if outcome == OK else KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        if outcome in (OK, UNKNOWN):
            error = self._store(write) or error
        elif outcome == LATE:
            self._late_writes.append(write)
        if self._core.handle(WriteCompleted(error), self.now).retire:
            self._reload()

    def send(self, number: int, _: int) -> None:
        """Sends letters of some records that are archiving."""
        runs = self._core.archiving(1 + number % 3)
        if self._open is None and runs:
            self._sequence += 1
            state_epoch, leader_epoch = self._core.failed_under
            offsets = [offset for run in runs for offset in range(run.first, run.last + 1)]
            sent = leader_epoch, self._sequence
            self._open = Request(state_epoch, sent, offsets, self._core.archiving_ranges())

    def answer(self, _: int, outcome: int) -> None:
        """The request arrives, and its response."""
        request, self._open = self._open, None
        if request is None:
            return
        if outcome == LATE:
            self._late_requests.append(request)
        if outcome in (OK, UNKNOWN) and self._append(request) and outcome == OK:
            ranges = [(offset, offset) for offset in request.offsets]
            self._core.handle(LettersWritten(ranges), self.now)

    def arrive(self, chosen: int, _: int) -> None:
        """A late write and a late request arrive, or one arrives again."""
        if self._late_writes:
            self._store(self._late_writes[chosen % len(self._late_writes)])
        if self._late_requests:
            self._append(self._late_requests[chosen % len(self._late_requests)])

    def fail_over(self, _: int, __: int) -> None:
        self._leader_epoch += 1
        self._reload()

    def initialise(self, _: int, __: int) -> None:
        """The group coordinator did not receive the response to an initialisation."""
        self._state_epoch += 1
        self._shard.run(Initialize(KEY, self._state_epoch, 0, keep_existing=True, start_has_epoch=True))

    def alter(self, _: int, __: int) -> None:
        """An administrator sets the start offset; all records may fail again."""
        self._state_epoch += 1
        self._shard.run(Initialize(KEY, self._state_epoch, 0, start_has_epoch=True))

    # Checks

    def drain(self) -> None:
        """Ends the faults: records fail and get their letters until all are archived."""
        self.answer(0, OK)
        for _ in range(
            2
        ):  # the first pass may end when the leader finds that the state was initialised again
            self._store_everything()
            self._reload()
        for _ in range(8 * RECORDS):
            self.fail(0xFF, OK)
            self.write(0, OK)
            self.send(2, OK)
            self.answer(0, OK)
            self.wait(0, OK)

    def check_drained(self) -> None:
        """Each record of the present state failed once, and so did those before offsets were altered."""
        reply = self._shard.run(ReadFailed(KEY))
        assert isinstance(reply, FailedReply)
        listed = [offset for entry in reply.records for offset in range(entry.first, entry.last + 1)]
        assert sorted(listed) == list(range(RECORDS))
        state_epoch, _ = self._core.failed_under
        assert all(self.letters[state_epoch, offset] == 1 for offset in range(RECORDS))

    # Parts

    def _reject(self, offset: int) -> None:
        self._core.handle(Acknowledge(MEMBER, [AckBatch(offset, offset, [REJECT])], lambda _: None), self.now)

    def _store(self, write: StateWrite) -> KafkaError | None:
        try:
            self._shard.run(Write(KEY, *write))
        except KafkaError as error:  # as the persister translates the error of a fenced write
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error))
        return None

    def _store_everything(self) -> None:
        while self._core.writing:
            self.write(0, OK)

    def _append(self, request: Request) -> bool:
        """Returns whether the dead letter topic accepts a request."""
        check_request(request.offsets, request.still_archiving)
        note = self._notes.get(request.state_epoch, LetterNote())
        try:
            planned = plan_letters(note, request.sent, request.offsets, request.still_archiving)
        except KafkaError:
            return False
        self._notes[request.state_epoch] = planned.note
        for index in planned.indexes:
            letter = request.state_epoch, request.offsets[index]
            self.letters[letter] += 1
            assert self.letters[letter] == 1, f"{letter} has another letter"
        return True

    def _reload(self) -> None:
        self._core.handle(Retire(), self.now)
        if self._open is not None:
            self._late_requests.append(self._open)
            self._open = None
        self._core = self._load()

    def _load(self) -> SharePartition:
        reply = self._shard.run(read(self._leader_epoch))
        assert isinstance(reply, ReadReply)
        loaded = LoadedState(
            reply.state_epoch,
            self._leader_epoch,
            reply.start_offset,
            reply.state_batches,
            kept_since=reply.kept_since,
        )
        core = SharePartition(LIMITS, loaded)
        core.handle(Loaded(), self.now)
        return core


STEPS: dict[str, Callable[[System, int, int], None]] = {
    "fail": System.fail,
    "wait": System.wait,
    "write": System.write,
    "send": System.send,
    "answer": System.answer,
    "arrive": System.arrive,
    "fail over": System.fail_over,
    "initialise": System.initialise,
    "alter": System.alter,
}
_OFTEN = ["fail", "write", "write", "send", "answer", "send", "answer"]
_OUTCOMES = [OK, OK, OK, OK, OK, LOST, UNKNOWN, LATE]

histories = st.lists(
    st.tuples(
        st.sampled_from([*_OFTEN, *_OFTEN, *STEPS]),
        st.integers(0, 2**RECORDS - 1),
        st.sampled_from(_OUTCOMES),
    ),
    min_size=10,
    max_size=60,
)


def follow(history: list[tuple[str, int, int]]) -> None:
    """Runs the steps of a history, and then drains the share-partition. Raises AssertionError."""
    system = System()
    for step, chosen, outcome in history:
        STEPS[step](system, chosen, outcome)
    system.drain()
    system.check_drained()


@given(histories)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_each_failure_has_one_letter_and_one_entry(history: list[tuple[str, int, int]]) -> None:
    follow(history)


def archiving_only(in_flight: InFlight, _: object) -> list[Range]:
    return _stored_ranges(in_flight, ())


def own_epoch(core: SharePartition) -> tuple[int, int]:
    return core.loaded_state.loaded_under


_stored_ranges = archiving.stored_ranges

MUTANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "the note is pruned before the end of the record is durable": lambda: patch.object(
        archiving, "stored_ranges", archiving_only
    ),
    "the key of a letter has the state epoch of its sender": lambda: patch.object(
        SharePartition, "failed_under", property(own_epoch)
    ),
}


@pytest.mark.slow
@pytest.mark.patches
@pytest.mark.parametrize("mutant", MUTANTS)
def test_property_detects_a_mutant(mutant: str) -> None:
    @given(histories)
    @settings(max_examples=3000, derandomize=True, database=None, phases=[Phase.generate])
    def follow_all(history: list[tuple[str, int, int]]) -> None:
        follow(history)

    with MUTANTS[mutant](), pytest.raises(AssertionError):
        follow_all()
