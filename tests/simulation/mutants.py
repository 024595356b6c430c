"""Mutants of the product, each with one safeguard removed; a simulated run must detect every one.

`make simulate-mutants` prints the seed that detects each mutant, and the invariant that it breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from hashlib import md5
from inspect import signature
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from sharebroker_protocol import clock
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import ENDED, Disposition, JournalUpdate, RecordState, StateBatch
from sharebroker_server.catalog.machine import CreateTopic
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.topics import topic_id_text
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.coordinator_runtime.pending import PendingRecords, Waiter
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.group_coordinator.service import catalog, lag
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.record_log import copies, lifecycle, partition_log
from sharebroker_server.record_log.core import addressed, transactions
from sharebroker_server.record_log.core.batch import HEADER_SIZE, StoredBatch, header_of, seal
from sharebroker_server.record_log.core.notes import Note
from sharebroker_server.record_log.core.schedules import Schedules
from sharebroker_server.record_log.core.sequence_gaps import SequenceGaps
from sharebroker_server.record_log.core.share_index import CHECKPOINT_NAME, DELTA_NAME
from sharebroker_server.record_log.core.snapshots import load_snapshots
from sharebroker_server.record_log.core.transactions import Transactions
from sharebroker_server.share_coordinator.core import checkpointing, machine
from sharebroker_server.share_coordinator.core import state as share_state
from sharebroker_server.share_coordinator.core.commands import Initialize, Inspect, Inspection, Write
from sharebroker_server.share_coordinator.core.journal import Journal
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint, ShareState
from sharebroker_server.share_partition_leader import leadership
from sharebroker_server.share_partition_leader.core import (
    archiving,
    locks,
    runs,
    share_partition,
    state_writes,
)
from sharebroker_server.share_partition_leader.core.backoff import FailedDelivery
from sharebroker_server.share_partition_leader.core.circuit_breaker import FailureWindow, Outcomes
from sharebroker_server.share_partition_leader.core.events import (
    Acknowledge,
    ArchivingRecords,
    Effects,
    Event,
    LettersWritten,
    LoadedState,
    LostLock,
    MembersLeft,
    SharePartitionSettings,
)
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.core.letter_note import (
    LetterNote,
    PlannedLetters,
    plan_letters,
)
from sharebroker_server.share_partition_leader.core.locks import Locks
from sharebroker_server.share_partition_leader.core.runs import AVAILABLE, Run, Transition
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from sharebroker_server.share_partition_leader.core.state_writes import WriteQueue
from sharebroker_server.share_partition_leader.core.transitions import RecordEvent
from sharebroker_server.share_partition_leader.dead_letters import append, circuit_breaker
from sharebroker_server.share_partition_leader.dead_letters.archiving import ArchivingPartition
from sharebroker_server.share_partition_leader.dead_letters.sending import LetterPortion, LetterSender
from sharebroker_server.share_partition_leader.dead_letters.target import DeadLetterTopic
from sharebroker_server.share_partition_leader.leadership import share_partition_settings
from sharebroker_server.share_partition_leader.log import redrive
from sharebroker_server.share_partition_leader.log.redrive import RedriveCall
from sharebroker_server.share_partition_leader.log.retry import RetryCall
from sharebroker_server.share_partition_leader.share_partition import share_group_partition
from sharebroker_server.share_partition_leader.share_partition.reading import load_state
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from sharebroker_server.stream_log.port import LogNotWritten
from sharebroker_server.upstream_log.core.epochs import Divergence, EpochHistory
from tests.simulation.clients import DELAY_MS
from tests.simulation.cluster import PEACE
from tests.simulation.process import LOCK
from tests.testkit.checker.invariants import Invariant
from tests.testkit.memory.stream_log import FencedMemory
from tests.testkit.simulator.network import Network
from tests.testkit.simulator.store import SimulatedRecordStore


@dataclass(frozen=True, slots=True)
class Mutant:
    """The missing safeguard, and the patches that remove it.

    The first seed that detects a mutant may name any invariant; further seeds must name each of `breaks`.
    """

    missing: str
    patches: Callable[[], Sequence[AbstractContextManager[Any]]]
    breaks: tuple[Invariant, ...] = ()


def fence_without_compare(self: FencedMemory, resource: str, epoch: int) -> None:
    self.check_deletable()


_wait = PendingRecords.wait


def answer_before_append(self: PendingRecords, waiter: Waiter) -> None:
    waiter.future.set_result(waiter.reply)
    _wait(self, waiter)


_handle = SharePartition.handle


def answer_before_write(self: SharePartition, event: Event, now: float) -> Effects:
    if not isinstance(event, Acknowledge):
        return _handle(self, event, now)
    effects = _handle(self, replace(event, reply=lambda _: None), now)
    effects.replies = ((event.reply, None),)
    return effects


def no_roll_back(runs: InFlight, locks: Locks, transitions: Iterable[Transition]) -> None:
    pass


_complete = WriteQueue.complete


def deferred_without_end(self: WriteQueue, error: KafkaError | None, effects: Effects) -> list[Transition]:
    awaited = self.awaited
    transitions = _complete(self, error, effects)
    self.awaited = awaited
    return transitions


def no_timer(self: ShareGroupPartition, deadline: float) -> None:
    pass


def no_limit(
    event: RecordEvent, delivery_count: int, delivery_count_limit: int, *, dead_letters: bool
) -> RecordState:
    return AVAILABLE


def no_holder_compare(self: SharePartition, event: Event, now: float) -> Effects:
    if isinstance(event, Acknowledge):
        first = event.batches[0].first
        for lock in self.in_flight.held():
            if lock.first <= first <= lock.last:
                event = replace(_without_tokens(event), member=lock.member)
    return _handle(self, event, now)


_roll_back = state_writes.roll_back


def uncounted_roll_back(runs: InFlight, locks: Locks, transitions: Iterable[Transition]) -> None:
    _roll_back(runs, locks, transitions)
    for run in runs.runs:
        run.counted = False


def no_token_compare(self: SharePartition, event: Event, now: float) -> Effects:
    return _handle(self, _without_tokens(event) if isinstance(event, Acknowledge) else event, now)


def _without_tokens(event: Acknowledge) -> Acknowledge:
    return replace(event, batches=[batch._replace(token=None) for batch in event.batches])


def no_lease_check(self: LeaseHolder, resource: str) -> int | None:
    lease = self._held.get(resource)
    return None if lease is None else lease.epoch


_check_write = machine.check_write


def no_epoch_check(command: Write, state: ShareState | None) -> ShareState:
    return state or _check_write(command, state)


def no_leader_epoch_check(command: Write, state: ShareState | None) -> ShareState:
    if state is not None:
        command = command._replace(leader_epoch=max(command.leader_epoch, state.leader_epoch))
    return _check_write(command, state)


def no_initialize_check(command: Initialize, state: ShareState | None) -> None:
    pass


def wiping_initialize(command: Initialize, state: ShareState | None, now: float) -> ShareCheckpoint:
    kept = checkpointing.first_checkpoint(command, state, now)
    return kept._replace(start_offset=command.start_offset, state_batches=(), delivery_complete_count=-1)


def never_asked_again(command: Initialize, state: ShareState) -> bool:
    return False


def forgetful_checkpoint(
    runs: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int
) -> list[StateBatch]:
    return [batch for batch in added if batch.first >= start_offset]


def no_expiry(self: LeaseHolder) -> None:
    pass


_append = SimulatedRecordStore.append


async def failure_ignored(self: SimulatedRecordStore, *args: Any, **options: Any) -> None:
    try:
        await _append(self, *args, **options)
    except LogNotWritten:
        await asyncio.sleep(0)


_row = lag._row


def lag_of_the_log(partition: int, summary: Any, end: Any) -> Any:
    row = _row(partition, summary, end)
    if row.lag >= 0:
        row.lag += 1
    return row


_expire = Locks.expire


def hasty_locks(
    self: Locks, settings: SharePartitionSettings, now: float, retry: FailedDelivery | None
) -> list[LostLock]:
    return _expire(self, settings, now + LOCK, retry)


def late_timer(self: ShareGroupPartition, deadline: float) -> None:
    if not self.retired and self._timer is None:
        self._timer = asyncio.get_running_loop().call_later(deadline - clock.now() + PEACE / 2, self._fire)


def as_it_came(state: ShareState, start_offset: int, count: int) -> tuple[int, int]:
    return max(start_offset, 0), count


def side_by_side(
    runs: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int
) -> list[StateBatch]:
    return [batch for batch in (*runs, *added) if batch.first >= start_offset]


_merge = share_state._merge


def latest_time(window: list[StateBatch], batch: StateBatch) -> list[StateBatch]:
    merged = _merge(window, batch)
    for run in window:
        first, last = max(run.first, batch.first), min(run.last, batch.last)
        if first <= last and run[2:4] == batch[2:4] and _not_before_ms(run) > _not_before_ms(batch):
            merged = _merge(merged, run._replace(first=first, last=last))
    return merged


def _not_before_ms(batch: StateBatch) -> int:
    return 0 if batch.note is None else batch.note.not_before_ms


def every_other_number(state: ShareState, rules: checkpointing.CheckpointRules) -> int:
    return state.last_delta_index + 2


_inspect = machine.ShareCoordinatorMachine._inspect


def another_start(self: machine.ShareCoordinatorMachine, command: Inspect, now: float) -> Any:
    decision = _inspect(self, command, now)
    if isinstance(decision.reply, Inspection) and decision.reply.state is not None:
        decision.reply.state.start_offset += 1
    return decision


_load_state = load_state


async def counted_less(*args: Any) -> LoadedState:
    loaded: LoadedState = await _load_state(*args)
    less = (batch._replace(delivery_count=batch.delivery_count - 1) for batch in loaded.batches)
    return replace(loaded, batches=tuple(less))


async def without_delays(*args: Any) -> LoadedState:
    loaded: LoadedState = await _load_state(*args)
    return replace(loaded, batches=tuple(batch._replace(note=None) for batch in loaded.batches))


async def without_locks(*args: Any) -> LoadedState:
    loaded: LoadedState = await _load_state(*args)
    notes = (None if batch.note is None or batch.note.lock_token else batch.note for batch in loaded.batches)
    batches = (batch._replace(note=note) for batch, note in zip(loaded.batches, notes, strict=True))
    return replace(loaded, batches=tuple(batches))


def never_durable(member: str, length: float) -> bool:
    return False


def locks_end_with_session(self: SharePartition, event: Event, now: float) -> Effects:
    if isinstance(event, MembersLeft) and event.session:
        for lock in [lock for member in event.members for _, lock in self.in_flight.locked_by(member)]:
            lock.durable &= lock.session != event.session
    return _handle(self, event, now)


_end_waits = InFlight.end_waits


def hasty_waits(self: InFlight, now_ms: float) -> bool:
    return _end_waits(self, now_ms + DELAY_MS)


_next_deadline = SharePartition.next_deadline


def late_waits(self: SharePartition) -> float | None:
    deadline = _next_deadline(self)
    return deadline if deadline is None or not self.in_flight.due else deadline + 1.0


def room_by_width(self: InFlight, settings: SharePartitionSettings) -> int:
    return settings.max_record_locks - self.count


def no_lock_limit(config: GroupConfig, broker: BrokerConfig, share_version: int) -> SharePartitionSettings:
    return replace(share_partition_settings(config, broker, share_version), max_record_locks=2000)


def soft_state_of_the_discarded(self: ShardRuntime[Any, Any, Any], decision: Decision[Any, Any]) -> None:
    for change in decision.soft:
        self._machine.apply_soft(change)
    _accept(self, decision)


_accept = ShardRuntime._accept
_unary = Network.unary


def not_listed(self: Transition, run: Run, disposition: Disposition) -> None:
    pass


def all_failures(state: ShareState, update: JournalUpdate) -> JournalUpdate:
    return update


_apply_update = Journal.apply


def forgetful_journal(self: Journal, update: JournalUpdate) -> None:
    _apply_update(self, update._replace(limit=1))
    self.dropped = 0


async def no_deadline(self: Network, address: str, method: str, data: bytes, timeout: float | None) -> bytes:
    return await _unary(self, address, method, data, None)


async def not_stopped(self: MetadataCache) -> None:
    pass


def gap_is_final(self: SequenceGaps, *args: object) -> None:
    pass


async def no_ids(*args: object) -> None:
    """Leaves the table of message ids empty."""


_load_snapshots = load_snapshots


def without_schedules(snapshots: Mapping[str, bytes]) -> Transactions:
    return _load_snapshots({name: each for name, each in snapshots.items() if name[0] != "s"})


def no_recall(self: Schedules, offsets: Iterable[int]) -> None:
    pass


def without_notes(snapshots: Mapping[str, bytes]) -> Transactions:
    return _load_snapshots({name: each for name, each in snapshots.items() if name[0] != "n"})


def all_batches(batches: Sequence[StoredBatch], _: int) -> list[StoredBatch]:
    """Returns state of share groups as if it were records."""
    return [_as_records(batch) if batch.has_share_state else batch for batch in batches]


def _as_records(batch: StoredBatch) -> StoredBatch:
    data = seal(header_of(batch.data)._replace(attributes=0), memoryview(batch.data)[HEADER_SIZE:])
    return batch._replace(data=data, control=False)


def without_checkpoints(snapshots: Mapping[str, bytes]) -> Transactions:
    return _load_snapshots({name: each for name, each in snapshots.items() if name[0] != CHECKPOINT_NAME})


def without_deltas(snapshots: Mapping[str, bytes]) -> Transactions:
    return _load_snapshots({name: each for name, each in snapshots.items() if name[0] != DELTA_NAME})


def never_hidden(*_: object) -> Iterator[tuple[int, int]]:
    return iter(())


def never_copied(*_: object) -> None:
    """Permits every copy."""


def no_earlier_copies(*_: object) -> dict[int, int]:
    return {}


def no_address(*_: object) -> dict[str, Note]:
    return {}


_ADDRESSED_TO_ALL: Final = SimpleNamespace(**vars(addressed) | {"note_of": no_address})


def no_letter_note(note: LetterNote) -> bytes:
    return b""


async def archived_first(
    self: LetterSender,
    partition: ArchivingPartition,
    portion: LetterPortion,
    topic: DeadLetterTopic,
    number: int,
) -> None:
    partition.handle(LettersWritten([(offset, offset) for offset in portion.offsets]))
    await _send_letters(self, partition, portion, topic, number)


_send_letters = LetterSender.send
_plan_letters = plan_letters


def letters_of_any_leader(note: LetterNote, sent: tuple[int, int], *ranges: Any) -> PlannedLetters:
    known = note.leader_epoch, note.sequence
    return _plan_letters(note, known if sent[0] < note.leader_epoch else sent, *ranges)


def letters_of_any_request(note: LetterNote, sent: tuple[int, int], *ranges: Any) -> PlannedLetters:
    known = note.leader_epoch, note.sequence
    return _plan_letters(note, max(sent, known) if sent[0] == note.leader_epoch else sent, *ranges)


def letters_before_the_state(
    in_flight: InFlight, limit: int, delivery_count_limit: int
) -> list[ArchivingRecords]:
    for run in in_flight.archiving_from(in_flight.start):
        run.stored = True
    return _requested_letters(in_flight, limit, delivery_count_limit)


_requested_letters = archiving.requested_letters


def with_id_of_its_name(name: str, _: str, *rest: Any) -> CreateTopic:
    return CreateTopic(name, topic_id_text(md5(name.encode()).digest()), *rest)


def never_differs(self: Divergence, leader_epoch: int, end_offset: int, current_epoch: int = -1) -> None:
    self.epochs = ()


def never_void(self: EpochHistory, loaded_under: int) -> None:
    pass


def never_paused(config: GroupConfig, broker: BrokerConfig, share_version: int) -> SharePartitionSettings:
    return replace(share_partition_settings(config, broker, share_version), paused=False)


def no_failures(counted: Any, groups: Iterable[str]) -> dict[str, Outcomes]:
    return dict.fromkeys(groups, Outcomes(0, 0))


def never_restarted(self: FailureWindow, time: float, total: Outcomes) -> None:
    pass


def nothing_expires(
    batches: Sequence[StoredBatch], oldest_ms: float, _: object, *, adjacent: bool
) -> tuple[Any, ...]:
    return [(batch.base_offset, batch.last_offset) for batch in batches], [], batches


def _on(target: object, name: str, broken: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Replaces a function. Raises TypeError unless the calls of the original fit the replacement: any seed
    would detect the error of such a call.
    """
    parameters = signature(getattr(target, name)).parameters.values()
    by_position = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    signature(broken).bind(*by_position, **by_name)
    return patch.object(target, name, broken)


MUTANTS: Final = (
    Mutant(
        "the store's fence does not compare epochs",
        lambda: [_on(FencedMemory, "check_writable", fence_without_compare)],
    ),
    Mutant(
        "a coordinator replies before the append", lambda: [_on(PendingRecords, "wait", answer_before_append)]
    ),
    Mutant(
        "a leader replies before the state write",
        lambda: [_on(SharePartition, "handle", answer_before_write)],
    ),
    Mutant(
        "a failed state write is not rolled back",
        lambda: [_on(share_partition, "roll_back", no_roll_back)],
    ),
    Mutant(
        "a record batch is deferred beyond the end of the write",
        lambda: [_on(WriteQueue, "complete", deferred_without_end)],
    ),
    Mutant("the lock timer is lost", lambda: [_on(ShareGroupPartition, "_arm", no_timer)]),
    Mutant(
        "the delivery limit is not enforced",
        lambda: [_on(module, "after_failed_delivery", no_limit) for module in (locks, runs)],
        (Invariant.COUNT_LIMIT,),
    ),
    Mutant(
        "an acknowledgement is accepted from any member",
        lambda: [_on(SharePartition, "handle", no_holder_compare)],
    ),
    Mutant("lock tokens are not compared", lambda: [_on(SharePartition, "handle", no_token_compare)]),
    Mutant(
        "a lease never expires",
        lambda: [_on(LeaseHolder, "holds", no_lease_check), _on(LeaseHolder, "_drop_expired", no_expiry)],
    ),
    Mutant(
        "state writes are accepted under any epoch", lambda: [_on(machine, "check_write", no_epoch_check)]
    ),
    Mutant(
        "state writes are accepted from a former leader",
        lambda: [_on(machine, "check_write", no_leader_epoch_check)],
    ),
    Mutant(
        "an initialisation is accepted at a stale state epoch",
        lambda: [_on(machine, "check_initialize", no_initialize_check)],
    ),
    Mutant(
        "a repeated initialisation deletes the state",
        lambda: [
            _on(machine, "first_checkpoint", wiping_initialize),
            _on(machine, "_is_repetition", never_asked_again),
        ],
    ),
    Mutant(
        "a checkpoint contains only the last write",
        lambda: [_on(checkpointing, "combine", forgetful_checkpoint)],
    ),
    Mutant(
        "a failed append counts as successful", lambda: [_on(SimulatedRecordStore, "append", failure_ignored)]
    ),
    Mutant(
        "a delta index is skipped",
        lambda: [_on(checkpointing, "_next_delta_index", every_other_number)],
    ),
    Mutant("the lag is too high by one", lambda: [_on(lag, "_row", lag_of_the_log)]),
    Mutant("locks time out too early", lambda: [_on(Locks, "expire", hasty_locks)]),
    Mutant("locks time out too late", lambda: [_on(ShareGroupPartition, "_arm", late_timer)]),
    Mutant("a late write decreases the start offset", lambda: [_on(checkpointing, "_advance", as_it_came)]),
    Mutant("a checkpoint contains an offset twice", lambda: [_on(checkpointing, "combine", side_by_side)]),
    Mutant(
        "the start offset in memory differs from the log",
        lambda: [_on(machine.ShareCoordinatorMachine, "_inspect", another_start)],
        (Invariant.REPLAY_AGREES,),
    ),
    Mutant("a new leader loses one delivery", lambda: [_on(leadership, "load_state", counted_less)]),
    Mutant(
        "a new leader does not load delays",
        lambda: [_on(leadership, "load_state", without_delays)],
        (Invariant.NOT_EARLY,),
    ),
    Mutant(
        "a new leader does not load durable locks",
        lambda: [_on(leadership, "load_state", without_locks)],
        (Invariant.RUNS_ONCE,),
    ),
    Mutant(
        "durable locks are not stored",
        lambda: [_on(share_partition, "is_durable", never_durable)],
        (Invariant.RUNS_ONCE,),
    ),
    Mutant(
        "a failed release does not count for a later lock",
        lambda: [_on(share_partition, "roll_back", uncounted_roll_back)],
        (Invariant.RUNS_ONCE,),
    ),
    Mutant(
        "the latest of several stored times counts, not the newest",
        lambda: [_on(share_state, "_merge", latest_time)],
        (Invariant.FORMER_HOLDER_REFUSED,),
    ),
    Mutant(
        "durable locks end with their session",
        lambda: [_on(SharePartition, "handle", locks_end_with_session)],
        (Invariant.RUNS_ONCE,),
    ),
    Mutant(
        "delays end too early",
        lambda: [_on(InFlight, "end_waits", hasty_waits)],
        (Invariant.NOT_EARLY,),
    ),
    Mutant(
        "delays end a second late",
        lambda: [_on(SharePartition, "next_deadline", late_waits)],
        (Invariant.ON_TIME,),
    ),
    Mutant(
        "the window counts the offsets between its start and its end",
        lambda: [_on(InFlight, "room", room_by_width)],
        (Invariant.IN_TIME,),
    ),
    Mutant(
        "the in-flight limit is not enforced",
        lambda: [_on(leadership, "share_partition_settings", no_lock_limit)],
    ),
    Mutant(
        "discarded decisions stay in memory",
        lambda: [_on(ShardRuntime, "_accept", soft_state_of_the_discarded)],
    ),
    Mutant(
        "a gap in a producer's sequence is final at once",
        lambda: [_on(SequenceGaps, "check", gap_is_final)],
        (Invariant.STORED_ONCE,),
    ),
    Mutant(
        "message ids are not read when a log is loaded",
        lambda: [_on(lifecycle, "_load_ids", no_ids)],
        (Invariant.STORED_ONCE,),
    ),
    Mutant(
        "expired records are delivered",
        lambda: [_on(share_group_partition, "split_expired", nothing_expires)],
        (Invariant.NOT_EXPIRED,),
    ),
    Mutant(
        "schedules are not loaded",
        lambda: [_on(lifecycle, "load_snapshots", without_schedules)],
        (Invariant.NOT_EARLY,),
    ),
    Mutant(
        "recalls are forgotten",
        lambda: [_on(Schedules, "recall", no_recall)],
        (Invariant.NOT_RECALLED,),
    ),
    Mutant(
        "addressed records are hidden from no group",
        lambda: [_on(transactions, "hidden_from", never_hidden)],
        (Invariant.FOR_ITS_GROUP,),
    ),
    Mutant(
        "the groups of addressed records are not loaded",
        lambda: [_on(lifecycle, "load_snapshots", without_notes)],
        (Invariant.FOR_ITS_GROUP,),
    ),
    Mutant(
        "a repeated retry copies the record again",
        lambda: [
            _on(copies, "check_not_copied", never_copied),
            _on(RetryCall, "_copied", no_earlier_copies),
        ],
        (Invariant.COPIED_ONCE,),
    ),
    Mutant(
        "redriven records are addressed to no group",
        lambda: [patch.object(redrive, "addressed", _ADDRESSED_TO_ALL)],
        (Invariant.FOR_ITS_GROUP,),
    ),
    Mutant(
        "a repeated redrive copies the record again",
        lambda: [
            _on(addressed, "check_not_redriven", never_copied),
            _on(RedriveCall, "_redriven", no_earlier_copies),
        ],
        (Invariant.COPIED_ONCE,),
    ),
    Mutant(
        "a dead letter topic does not note its letters",
        lambda: [_on(append, "encoded", no_letter_note)],
        (Invariant.LETTER_ONCE,),
    ),
    Mutant(
        "a record is archived before its letter is written",
        lambda: [_on(LetterSender, "send", archived_first)],
        (Invariant.LETTER_ONCE,),
    ),
    Mutant(
        "letters of a former leader are appended",
        lambda: [_on(append, "plan_letters", letters_of_any_leader)],
        (Invariant.LETTER_ONCE,),
    ),
    Mutant(
        "letters of a late request are appended",
        lambda: [_on(append, "plan_letters", letters_of_any_request)],
        (Invariant.LETTER_ONCE,),
    ),
    Mutant(
        "a letter is written before its record is durably archiving",
        lambda: [_on(archiving, "requested_letters", letters_before_the_state)],
        (Invariant.LETTER_OF_FAILURE,),
    ),
    Mutant(
        "the start offset passes archiving records",
        lambda: [patch.object(state_writes, "FINISHED", ENDED)],
        (Invariant.LETTER_ONCE,),
    ),
    Mutant(
        "a failed record is not listed",
        lambda: [_on(Transition, "fail", not_listed)],
        (Invariant.LISTED_ONCE,),
    ),
    Mutant(
        "a write that is repeated lists its failed records again",
        lambda: [_on(machine, "new_failures", all_failures)],
        (Invariant.LISTED_ONCE,),
    ),
    Mutant(
        "the journal has only its newest entry, and counts no others",
        lambda: [_on(Journal, "apply", forgetful_journal)],
        (Invariant.LISTED_ONCE,),
    ),
    Mutant(
        "a topic that is created again keeps its id",
        lambda: [patch.object(catalog, "CreateTopic", with_id_of_its_name)],
        (Invariant.RECREATED,),
    ),
    Mutant(
        "the leader epochs of another cluster's log are not compared",
        lambda: [_on(Divergence, "answer", never_differs)],
        (Invariant.NOT_HIDDEN,),
    ),
    Mutant(
        "stored state survives the loss of its records",
        lambda: [_on(EpochHistory, "void_from", never_void)],
        (Invariant.NOT_HIDDEN,),
    ),
    Mutant(
        "members of a paused group receive records",
        lambda: [_on(leadership, "share_partition_settings", never_paused)],
        (Invariant.PAUSED,),
    ),
    Mutant(
        "a circuit breaker counts no failures",
        lambda: [_on(circuit_breaker, "_outcomes", no_failures)],
        (Invariant.BREAKS,),
    ),
    Mutant(
        "a circuit breaker counts failures from before the pause",
        lambda: [_on(FailureWindow, "restart", never_restarted)],
        (Invariant.RESUMES,),
    ),
    Mutant(
        "members receive the state of share groups",
        lambda: [_on(partition_log, "_for_readers", all_batches)],
        (Invariant.STATE_HIDDEN,),
    ),
    Mutant(
        "checkpoints in the logs of partitions are not found",
        lambda: [_on(lifecycle, "load_snapshots", without_checkpoints)],
    ),
    Mutant(
        "deltas in the logs of partitions are not found",
        lambda: [_on(lifecycle, "load_snapshots", without_deltas)],
    ),
    Mutant("calls have no deadline", lambda: [_on(Network, "unary", no_deadline)]),
    Mutant("a task continues after its process stops", lambda: [_on(MetadataCache, "stop", not_stopped)]),
)
