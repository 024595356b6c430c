"""The rules of a share coordinator's shard: commands become records, records become state (seed 004).

Knows no log, no clock and no wire. A write becomes a delta, or a checkpoint where that is no larger or the
deltas since the last one reach the limit. Everything that happens, happens by `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any, Final

from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.coordinator_runtime.machine import Decision
from sharebroker_server.share_coordinator.core.checks import (
    check_delete,
    check_initialize,
    check_read,
    check_write,
)
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Delete,
    DeleteTopic,
    Initialize,
    Inspect,
    Inspection,
    ListTopics,
    Read,
    ReadReply,
    Reply,
    Summarize,
    Summary,
    Write,
)
from sharebroker_server.share_coordinator.core.recording import (
    Rules,
    change,
    cold_checkpoint,
    first_checkpoint,
)
from sharebroker_server.share_coordinator.core.records import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from sharebroker_server.share_coordinator.core.state import Deletion, ShareState, States

RECORDS_A_DEADLINE: Final = 256
"""At most so many records does one deadline make; the next one is due at once while more are wanted."""

_Decision = Decision[ShareRecord, Reply]


class ShareCoordinatorMachine:
    """All share-partitions of one shard."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._states: States = States()
        self._deletions: dict[SharePartitionKey, Deletion] = {}
        self._warm = 0  # keys whose latest checkpoint is not a cold one
        self._last_position = 0
        self._deciders: dict[type, Callable[[Any, float], _Decision]] = {
            Write: self._write,
            Read: self._read,
            Initialize: self._initialize,
            Delete: self._delete,
            DeleteTopic: self._delete_topic,
            ListTopics: self._list_topics,
            Summarize: self._summarize,
            Inspect: self._inspect,
        }
        self._appliers: dict[type, Callable[[Any, int], None]] = {
            ShareDelta: self._apply_delta,
            ShareCheckpoint: self._apply_checkpoint,
            CheckpointTombstone: self._apply_checkpoint_tombstone,
            DeltaTombstone: self._apply_delta_tombstone,
        }

    def decide(self, command: Command, now: float) -> _Decision:
        """Raises INVALID_REQUEST, FENCED_STATE_EPOCH, FENCED_LEADER_EPOCH."""
        return self._deciders[type(command)](command, now)

    def apply(self, record: ShareRecord, position: int) -> None:
        """Folds a record in; what belongs to no checkpoint still in force is passed over."""
        self._appliers[type(record)](record, position)
        self._last_position = position

    def next_deadline(self) -> float | None:
        """At once while a delete is unfinished; else when the oldest checkpoint of all has become cold.

        Nothing is due while every checkpoint is a cold one: another round would gain nothing.
        """
        if self._deletions:
            return 0.0
        if not self._warm:
            return None
        return next(iter(self._states.values())).write_timestamp_ms / 1000 + self._rules.cold_after

    def on_deadline(self, now: float) -> tuple[ShareRecord, ...]:
        """The rest of unfinished deletes, else new checkpoints of keys that went quiet."""
        due = self._unfinished_tombstones(now) if self._deletions else self._cold_checkpoints(now)
        return tuple(islice(due, RECORDS_A_DEADLINE))

    def trim_before(self) -> int:
        """The oldest of the latest checkpoints; whatever lies before belongs to nothing."""
        positions = [deletion.checkpoint_position for deletion in self._deletions.values()]
        if self._states:
            positions.append(next(iter(self._states.values())).checkpoint_position)
        return min(positions, default=self._last_position + 1)

    # Commands

    def _initialize(self, command: Initialize, now: float) -> _Decision:
        state = self._states.get(command.key)
        check_initialize(command, state)
        if state is not None and _asked_again(command, state):
            return Decision((), None)
        # a delete that was interrupted is finished first: its tombstones must not hit deltas still to come
        return Decision(
            (*self._rest_of_delete(command.key, now), first_checkpoint(command, state, now)), None
        )

    def _read(self, command: Read, now: float) -> _Decision:
        state = check_read(command, self._states.get(command.key))
        reply = ReadReply(state.state_epoch, state.start_offset, tuple(state.runs))
        if state.leader_epoch == command.leader_epoch:
            return Decision((), reply)
        nothing = Write(command.key, state.state_epoch, command.leader_epoch, -1, -1, ())
        return Decision((change(state, nothing, command.leader_epoch, self._rules, now),), reply)

    def _write(self, command: Write, now: float) -> _Decision:
        state = check_write(command, self._states.get(command.key))
        return Decision((change(state, command, state.leader_epoch, self._rules, now),), None)

    def _delete(self, command: Delete, now: float) -> _Decision:
        check_delete(command, self._states.get(command.key))
        return Decision(self._tombstones(command.key, now), None)

    def _delete_topic(self, command: DeleteTopic, now: float) -> _Decision:
        keys = [key for key in self._states if key.topic_id == command.topic_id]
        return Decision(tuple(record for key in keys for record in self._tombstones(key, now)), len(keys))

    def _list_topics(self, _: ListTopics, __: float) -> _Decision:
        return Decision((), frozenset(key.topic_id for key in self._states))

    def _summarize(self, command: Summarize, _: float) -> _Decision:
        state = self._states.get(command.key)
        if state is None:
            return Decision((), Summary())
        count = state.delivery_complete_count
        return Decision((), Summary(state.state_epoch, state.leader_epoch, state.start_offset, count))

    def _inspect(self, command: Inspect, _: float) -> _Decision:
        return Decision((), Inspection(deepcopy(self._states.get(command.key)), self._last_position))

    def _tombstones(self, key: SharePartitionKey, now: float) -> tuple[ShareRecord, ...]:
        state = self._states.get(key)
        if state is None:
            return self._rest_of_delete(key, now)
        # the checkpoint's first: it alone says that the delete has begun
        return (CheckpointTombstone(key, int(now * 1000)), *_tombstones(key, state.delta_indices, now))

    def _rest_of_delete(self, key: SharePartitionKey, now: float) -> tuple[ShareRecord, ...]:
        deletion = self._deletions.get(key)
        return () if deletion is None else tuple(_tombstones(key, deletion.delta_indices, now))

    # What time makes due

    def _unfinished_tombstones(self, now: float) -> Iterator[ShareRecord]:
        for key, deletion in self._deletions.items():
            yield from _tombstones(key, deletion.delta_indices, now)

    def _cold_checkpoints(self, now: float) -> Iterator[ShareRecord]:
        if not self._warm:
            return
        for key, state in self._states.items():
            if state.write_timestamp_ms / 1000 + self._rules.cold_after > now:
                return
            yield cold_checkpoint(key, state, now)

    # Records

    def _apply_checkpoint(self, record: ShareCheckpoint, position: int) -> None:
        before = self._states.get(record.key)
        state = ShareState.of(record, position, -1 if before is None else before.last_delta_index)
        self._states[record.key] = state
        self._states.move_to_end(record.key)
        self._warm += (not state.cold) - (before is not None and not before.cold)

    def _apply_delta(self, record: ShareDelta, _: int) -> None:
        state = self._states.get(record.key)
        if state is not None and state.checkpoint_epoch == record.checkpoint_epoch:
            state.fold(record)

    def _apply_checkpoint_tombstone(self, record: CheckpointTombstone, _: int) -> None:
        state = self._states.pop(record.key, None)
        if state is None:
            return
        self._warm -= not state.cold
        if state.delta_indices:
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


def _asked_again(command: Initialize, state: ShareState) -> bool:
    """Whether this is an Initialize whose answer was lost: then the state must not be (Kafka #23190).

    Where each start has an epoch of its own, the state's may have moved on since.
    """
    same = command.keeps(state) or command.start_has_epoch or command.start_offset == state.start_offset
    return same and state.state_epoch == command.state_epoch
