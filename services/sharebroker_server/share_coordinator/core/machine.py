"""The state machine of a share-coordinator shard (Kafka: ShareCoordinatorShard).

Theory of operation
-------------------

A shard stores the state of many share-partitions in one log. For each share-partition the memory holds a
`ShareState`: the start offset, the runs of finished and released records above it, two epochs, and the
position of the latest checkpoint. The coordinator runtime calls `decide` with a command, appends the returned
records, and calls `apply` once they are durable. `decide` changes nothing; `apply` is the only method that
changes memory. Replay calls `apply` for the records of the log in order, and so rebuilds the same state.

Checkpoint or delta. A *checkpoint* (Kafka: ShareSnapshot) contains the complete state; a *delta* (Kafka:
ShareUpdate) contains one change. A write becomes a delta, except in three cases, in which it becomes a
checkpoint:

* the number of deltas since the latest checkpoint has reached the limit of `CheckpointRules`;
* the start offset moved, and a checkpoint would contain no more runs than the delta;
* the next delta index is still in use by a delta of this checkpoint (the range was reduced).

Each delta has a *delta index*, which is part of its key as in a compacted topic: 0..511 by default, 0..255 if
at most 256 deltas may follow a checkpoint. The index continues across checkpoints and wraps at the end of its
range.

Three numbers order the records:

* The *checkpoint epoch* counts checkpoints. A delta carries the epoch of its checkpoint, and is ignored
  unless that is the latest one. The number wraps; only equality counts.
* The *state epoch* is the group epoch of the initialisation. A write or delete with a lower one is fenced.
  `kept_since` is the state epoch of the oldest initialisation after which the state was only kept.
* The *leader epoch* is the lease epoch of the partition's leader. A read raises it, and a read or write with
  a lower one is fenced. It survives a new initialisation, so that an old leader stays fenced. It is
  at most the epoch of the partition's lease: a higher one would fence all leaders, permanently.

Replay needs, for each share-partition, its latest checkpoint and the records after it. `trim_before` is
therefore the position of the oldest of these checkpoints. `_states` is ordered by that position, so its first
entry gives the answer. One unused share-partition would keep the whole log. A *cold checkpoint* therefore
repeats the state of a share-partition without a checkpoint for `cold_after` seconds, at the end of the log.
It also contains the journal of failed records (`core.journal`), and is written for an old journal as well.
Its creation time stays that of the checkpoint it repeats, which is how a cold checkpoint is recognised. When
all checkpoints are cold, no deadline is due: writing them again would gain nothing.

Deletion writes the tombstone of the checkpoint first, then one for each delta since that checkpoint. After
the first, the state is deleted, and `_deletions` holds the delta indices that still need a tombstone. The
order matters: if the owner dies between the two, its successor finds the checkpoint's tombstone during replay
and writes the remaining ones at its next deadline. A new initialisation writes them first, so that they
cannot delete deltas of the new state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import (
    LONGEST_HOLDER,
    LONGEST_JOURNAL,
    LONGEST_STORED_REASON,
    Disposition,
    FailureNote,
    JournalUpdate,
    RecordState,
    SharePartitionKey,
    StateBatch,
    StateNote,
)
from sharebroker_server.coordinator_runtime.machine import Decision, WithoutSoftState
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.core.checkpointing import (
    CheckpointRules,
    change,
    cold_checkpoint,
    first_checkpoint,
)
from sharebroker_server.share_coordinator.core.journal import Journals, apply_to, new_failures
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    Deletion,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
    ShareState,
    States,
    counts_by_state,
)

MAX_RECORDS_PER_DEADLINE: Final = 256
"""The largest number of records that one deadline produces; the next deadline is due at once if more remain.
"""

_Decision = Decision[ShareRecord, c.Reply]


DURABLE_STATES: Final = frozenset({0, 2, 3, 4})
"""Available, acknowledged, archiving and archived. Acquired (1) is never stored."""

_INT16_MAX: Final = 2**15 - 1
_DISPOSITIONS: Final = frozenset(map(int, Disposition))


class ShareCoordinatorMachine(WithoutSoftState):
    """The share-partitions of one shard."""

    def __init__(self, rules: CheckpointRules) -> None:
        self._rules = rules
        self._rules_of_journals = replace(rules, early=not rules.indexed)
        self._states: States = States()
        self._journals: Journals = Journals()
        self._deletions: dict[SharePartitionKey, Deletion] = {}
        self._warm = 0  # number of keys whose latest checkpoint is not a cold one
        self._last_position = 0
        self._deciders: dict[type, Callable[[Any, float], _Decision]] = {
            c.Write: self._write,
            c.Read: self._read,
            c.Initialize: self._initialize,
            c.Delete: self._delete,
            c.DeleteTopicState: self._delete_topic,
            c.ListTopics: self._list_topics,
            c.Summarize: self._summarize,
            c.CheckpointStates: self._checkpoint,
            c.ReadFailed: self._read_failed,
            c.Inspect: self._inspect,
        }
        self._appliers: dict[type, Callable[[Any, int], None]] = {
            ShareDelta: self._apply_delta,
            ShareCheckpoint: self._apply_checkpoint,
            CheckpointTombstone: self._apply_checkpoint_tombstone,
            DeltaTombstone: self._apply_delta_tombstone,
        }

    def decide(self, command: c.Command, now: float) -> _Decision:
        """Returns the records and the reply of a command.

        Raises:
            KafkaError: INVALID_REQUEST, FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        return self._deciders[type(command)](command, now)

    def apply(self, record: ShareRecord, position: int) -> None:
        """Applies a record; ignores a record that belongs to no current checkpoint."""
        self._appliers[type(record)](record, position)
        self._last_position = position

    def next_deadline(self) -> float | None:
        """Returns 0 while a deletion is unfinished, else when the oldest checkpoint becomes cold.

        Returns None while every checkpoint is a cold one.
        """
        if self._deletions:
            return 0.0
        if not self._warm:
            return None
        oldest_ms = next(iter(self._states.values())).write_timestamp_ms
        if self._journals:
            oldest_ms = min(oldest_ms, next(iter(self._journals.values())).since_ms)
        return oldest_ms / 1000 + self._rules.cold_after

    def on_deadline(self, now: float) -> Decision[ShareRecord, None]:
        """Returns the remaining tombstones of unfinished deletions, else cold checkpoints."""
        due = self._unfinished_tombstones(now) if self._deletions else self._cold_checkpoints(now)
        return Decision(tuple(islice(due, MAX_RECORDS_PER_DEADLINE)), None)

    def checkpoints(self, now: float) -> Iterator[ShareCheckpoint]:
        """Yields the complete state of each share-partition, with its journal."""
        return (self._cold_checkpoint(key, state, now) for key, state in self._states.items())

    def trim_before(self) -> int:
        """Returns the position of the oldest current checkpoint; no record before it is needed."""
        positions = [deletion.checkpoint_position for deletion in self._deletions.values()]
        if self._states:
            positions.append(next(iter(self._states.values())).checkpoint_position)
        if self._journals:
            positions.append(next(iter(self._journals.values())).position)
        return min(positions, default=self._last_position + 1)

    # Commands

    def _initialize(self, command: c.Initialize, now: float) -> _Decision:
        state = self._states.get(command.key)
        check_initialize(command, state)
        if state is not None and _is_repetition(command, state):
            return Decision((), None)
        first = first_checkpoint(command, state, now)
        journal = self._journals.get(command.key)
        if journal is not None and not (state is not None and command.keeps(state)):
            # Records from the new start offset on are delivered again.
            first = first._replace(failed=journal.before(command.start_offset))
        # An interrupted deletion is completed first: its tombstones must not delete deltas of the new state.
        return Decision((*self._remaining_tombstones(command.key, now), self._with_journal(first)), None)

    def _read(self, command: c.Read, now: float) -> _Decision:
        state = check_read(command, self._states.get(command.key))
        reply = c.ReadReply(state.state_epoch, state.start_offset, tuple(state.runs), state.kept_since)
        if state.leader_epoch == command.leader_epoch:
            return Decision((), reply)
        if command.lease_epoch is None:
            return Decision((), c.LeaseRequired())
        unchanged = c.Write(command.key, state.state_epoch, command.leader_epoch, -1, -1, ())
        record = change(state, unchanged, command.leader_epoch, self._rules, now)
        return Decision((self._with_journal(record),), reply)

    def _write(self, command: c.Write, now: float) -> _Decision:
        state = check_write(command, self._states.get(command.key))
        failed = None if command.failed is None else new_failures(state, command.failed)
        # A checkpoint repeats the journal: it must not replace each delta.
        rules = self._rules_of_journals if command.key in self._journals else self._rules
        record = change(state, command, state.leader_epoch, rules, now, failed)
        return Decision((self._with_journal(record),), None)

    def _delete(self, command: c.Delete, now: float) -> _Decision:
        check_delete(command, self._states.get(command.key))
        return Decision(self._tombstones(command.key, now), None)

    def _delete_topic(self, command: c.DeleteTopicState, now: float) -> _Decision:
        keys = [key for key in self._states if key.topic_id == command.topic_id]
        return Decision(tuple(record for key in keys for record in self._tombstones(key, now)), len(keys))

    def _list_topics(self, _: c.ListTopics, __: float) -> _Decision:
        return Decision((), frozenset(key.topic_id for key in self._states))

    def _summarize(self, command: c.Summarize, now: float) -> _Decision:
        state = self._states.get(command.key)
        if state is None:
            return Decision((), c.SummaryReply())
        reply = c.SummaryReply(
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            *counts_by_state(state.runs, (now - command.clock_skew) * 1000),
        )
        return Decision((), reply)

    def _checkpoint(self, command: c.CheckpointStates, now: float) -> _Decision:
        found = ((key, self._states.get(key)) for key in command.keys)
        records = tuple(self._cold_checkpoint(key, state, now) for key, state in found if state is not None)
        return Decision(records, None)

    def _read_failed(self, command: c.ReadFailed, _: float) -> _Decision:
        journal = self._journals.get(command.key)
        reply = c.FailedReply() if journal is None else c.FailedReply(tuple(journal.entries), journal.dropped)
        return Decision((), reply)

    def _inspect(self, command: c.Inspect, _: float) -> _Decision:
        return Decision((), c.Inspection(deepcopy(self._states.get(command.key)), self._last_position))

    def _tombstones(self, key: SharePartitionKey, now: float) -> tuple[ShareRecord, ...]:
        state = self._states.get(key)
        if state is None:
            return self._remaining_tombstones(key, now)
        # The checkpoint's tombstone comes first: it is the record that starts the deletion.
        indices = state.delta_indices if not self._rules.indexed else ()
        return (CheckpointTombstone(key, int(now * 1000)), *_tombstones(key, indices, now))

    def _remaining_tombstones(self, key: SharePartitionKey, now: float) -> tuple[ShareRecord, ...]:
        deletion = self._deletions.get(key)
        return () if deletion is None else tuple(_tombstones(key, deletion.delta_indices, now))

    # Deadlines

    def _unfinished_tombstones(self, now: float) -> Iterator[ShareRecord]:
        for key, deletion in self._deletions.items():
            yield from _tombstones(key, deletion.delta_indices, now)

    def _cold_checkpoints(self, now: float) -> Iterator[ShareRecord]:
        if not self._warm:
            return
        written_before = (now - self._rules.cold_after) * 1000
        for key, state in self._states.items():
            if state.write_timestamp_ms > written_before:
                break
            yield self._cold_checkpoint(key, state, now)
        for key, journal in self._journals.items():
            if journal.since_ms > written_before:
                break
            if (busy := self._states.get(key)) is not None and busy.write_timestamp_ms > written_before:
                yield self._cold_checkpoint(key, busy, now)

    def _with_journal(self, record: ShareDelta | ShareCheckpoint) -> ShareDelta | ShareCheckpoint:
        """Returns a record, a checkpoint with the whole journal if earlier records are not loaded."""
        if not self._rules.indexed or isinstance(record, ShareDelta):
            return record
        journal, added = self._journals.get(record.key), record.failed
        if journal is None or (added is not None and added.complete):
            return record
        return record._replace(failed=journal.after(added))

    def _cold_checkpoint(self, key: SharePartitionKey, state: ShareState, now: float) -> ShareCheckpoint:
        journal = self._journals.get(key)
        return cold_checkpoint(key, state, now, None if journal is None else journal.complete())

    # Records

    def _apply_checkpoint(self, record: ShareCheckpoint, position: int) -> None:
        before = self._states.get(record.key)
        state = ShareState.of(record, position, -1 if before is None else before.last_delta_index)
        self._states[record.key] = state
        self._states.move_to_end(record.key)
        self._warm += (not state.cold) - (before is not None and not before.cold)
        if record.failed is not None:
            apply_to(self._journals, record.key, record.failed, position, record.write_timestamp_ms)

    def _apply_delta(self, record: ShareDelta, position: int) -> None:
        if record.failed is not None:
            apply_to(self._journals, record.key, record.failed, position, record.write_timestamp_ms)
        state = self._states.get(record.key)
        if state is not None and state.checkpoint_epoch == record.checkpoint_epoch:
            state.apply(record)

    def _apply_checkpoint_tombstone(self, record: CheckpointTombstone, _: int) -> None:
        self._journals.pop(record.key, None)
        state = self._states.pop(record.key, None)
        if state is None:
            return
        self._warm -= not state.cold
        if state.delta_indices and not self._rules.indexed:
            self._deletions[record.key] = Deletion(state.checkpoint_position, state.delta_indices)

    def _apply_delta_tombstone(self, record: DeltaTombstone, _: int) -> None:
        deletion = self._deletions.get(record.key)
        if deletion is None or record.delta_index not in deletion.delta_indices:
            return
        deletion.delta_indices.remove(record.delta_index)
        if not deletion.delta_indices:
            del self._deletions[record.key]


def _tombstones(key: SharePartitionKey, delta_indices: Iterable[int], now: float) -> Iterator[DeltaTombstone]:
    return (DeltaTombstone(key, index, int(now * 1000)) for index in delta_indices)


def _is_repetition(command: c.Initialize, state: ShareState) -> bool:
    """Returns whether this repeats an Initialize whose response was lost (Kafka #23190).

    Then the state must not change. If each start offset has an epoch of its own, the state's start offset may
    have moved since.
    """
    same = command.keeps(state) or command.start_has_epoch or command.start_offset == state.start_offset
    return same and state.state_epoch == command.state_epoch


def check_initialize(command: c.Initialize, state: ShareState | None) -> None:
    """Raises INVALID_REQUEST or FENCED_STATE_EPOCH if the command is not permitted."""
    _check_at_least("state_epoch", command.state_epoch, 0)
    _check_at_least("start_offset", command.start_offset, -1)
    if state is not None and state.state_epoch > command.state_epoch:
        raise _fenced_state(command.key, state.state_epoch, command.state_epoch)


def check_read(command: c.Read, state: ShareState | None) -> ShareState:
    """Returns the state to read; raises INVALID_REQUEST, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH."""
    _check_at_least("leader_epoch", command.leader_epoch, 0)
    if state is None:
        raise _not_initialized("Read", command.key)
    if state.leader_epoch > command.leader_epoch:
        raise _fenced_leader(command.key, state.leader_epoch, command.leader_epoch)
    if command.lease_epoch is not None and command.leader_epoch > max(
        command.lease_epoch, state.leader_epoch
    ):
        raise _unknown_leader(command)
    return state


def check_write(command: c.Write, state: ShareState | None) -> ShareState:
    """Returns the state to change; raises INVALID_REQUEST, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH."""
    key, state_epoch, leader_epoch, start_offset, count, batches, failed, replaces = command
    if state_epoch < 0 or leader_epoch < 0 or start_offset < -1 or count < -1:
        _check_at_least("state_epoch", state_epoch, 0)
        _check_at_least("leader_epoch", leader_epoch, 0)
        _check_at_least("start_offset", start_offset, -1)
        _check_at_least("delivery_complete_count", count, -1)
    if replaces:
        _check_at_least("start_offset", start_offset, 0)
    for batch in batches:
        _check_batch(batch)
    if failed is not None:
        _check_failed(failed)
    if state is None:
        raise _not_initialized("Write", key)
    if state.leader_epoch > leader_epoch:
        raise _fenced_leader(key, state.leader_epoch, leader_epoch)
    if state.state_epoch > state_epoch:
        raise _fenced_state(key, state.state_epoch, state_epoch)
    return state


def check_delete(command: c.Delete, state: ShareState | None) -> None:
    """Raises INVALID_REQUEST or FENCED_STATE_EPOCH: a delayed deletion must not remove newer state."""
    key, epoch = command
    if epoch is None:
        return
    _check_at_least("state_epoch", epoch, 0)
    if state is not None and state.state_epoch > epoch:
        raise _fenced_state(key, state.state_epoch, epoch)


def _check_batch(batch: StateBatch) -> None:
    first, last, state, count, note = batch
    if not (0 <= first <= last and state in DURABLE_STATES and 0 <= count <= _INT16_MAX):
        raise c.invalid(
            "state_batches",
            f"contains {first}-{last} in state {state} with delivery count {count}, which is not allowed",
        )
    if note is None:
        return
    not_before_ms, holder, token, failure = note
    if failure is not None:
        _check_failure(batch, failure)
        return
    if not_before_ms <= 0 or state != RecordState.AVAILABLE:
        raise c.invalid(
            "state_batches", f"contains {first}-{last} in state {state} not before {not_before_ms} ms"
        )
    if (token > 0) is not bool(holder) or token < 0 or len(holder) > LONGEST_HOLDER:
        raise c.invalid("state_batches", f"contains {first}-{last} with an invalid lock, token {token}")


def _check_failure(batch: StateBatch, failure: FailureNote) -> None:
    if batch.state != RecordState.ARCHIVING or batch.note != StateNote(failure=failure):
        raise c.invalid("state_batches", f"contains a failure of {batch.first}-{batch.last} in a wrong state")
    _check_failed_fields(batch.first, batch.last, failure)


def _check_failed(update: JournalUpdate) -> None:
    if not (0 < update.limit <= LONGEST_JOURNAL and update.dropped >= 0):
        raise c.invalid("failed", f"has a limit of {update.limit}; 1 to {LONGEST_JOURNAL} is allowed")
    for first, last, disposition, count, time_ms, member_id, reason in update.records:
        if not (0 <= first <= last and count >= 0):
            raise c.invalid("failed", f"contains {first}-{last} with invalid fields")
        _check_failed_fields(first, last, FailureNote(disposition, time_ms, member_id, reason))


def _check_failed_fields(first: int, last: int, failure: FailureNote) -> None:
    disposition, time_ms, member_id, reason = failure
    if disposition not in _DISPOSITIONS or time_ms < 0:
        raise c.invalid("failed", f"contains {first}-{last} with invalid fields")
    if len(member_id) > LONGEST_HOLDER or len(reason) > LONGEST_STORED_REASON:
        raise c.invalid("failed", f"contains {first}-{last} with a text that is too long")


def _check_at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise c.invalid(field, f"must be {least} or more, not {value}")


def _not_initialized(operation: str, key: SharePartitionKey) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"{operation} operation on uninitialized share partition not allowed.",
        metadata={"key": str(key)},
    )


def _fenced_leader(key: SharePartitionKey, stored: int, requested: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_LEADER_EPOCH,
        metadata={"key": str(key), "stored_leader_epoch": str(stored), "leader_epoch": str(requested)},
    )


def _unknown_leader(command: c.Read) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        "The leader epoch is above that of the partition's lease.",
        metadata={
            "key": str(command.key),
            "lease_epoch": str(command.lease_epoch),
            "leader_epoch": str(command.leader_epoch),
        },
    )


def _fenced_state(key: SharePartitionKey, stored: int, requested: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_STATE_EPOCH,
        metadata={"key": str(key), "stored_state_epoch": str(stored), "state_epoch": str(requested)},
    )
