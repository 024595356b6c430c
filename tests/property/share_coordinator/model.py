"""A minimal share coordinator: plain fields, one value per offset, no records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import Disposition, FailedRecords, JournalUpdate, SharePartitionKey
from sharebroker_server.share_coordinator.core.commands import (
    Command,
    Delete,
    DeleteTopicState,
    FailedReply,
    Initialize,
    LeaseRequired,
    ListTopics,
    Read,
    ReadFailed,
    ReadReply,
    Reply,
    Summarize,
    SummaryReply,
    Write,
)
from tests.property.share_coordinator.commands import FUTURE_MS
from tests.unit.share_coordinator.naive import NaiveRuns


class Rejected(Exception):
    def __init__(self, code: ErrorCode) -> None:
        self.code = code


def neighbours(offsets: list[int]) -> list[list[int]]:
    """Returns ascending offsets as parts without gaps."""
    parts: list[list[int]] = []
    for offset in offsets:
        if parts and parts[-1][-1] == offset - 1:
            parts[-1].append(offset)
        else:
            parts.append([offset])
    return parts


@dataclass
class NaiveJournal:
    """A list of (offsets, their description)."""

    entries: list[tuple[list[int], FailedRecords]] = field(default_factory=list)
    dropped: int = 0

    def add(self, update: JournalUpdate, finished: Callable[[int], bool]) -> None:
        added: list[tuple[list[int], FailedRecords]] = []
        for entry in update.records:
            offsets = range(entry.first, entry.last + 1)
            parts = neighbours([offset for offset in offsets if not finished(offset)])
            added += [(part, entry) for part in parts]
        if not added:
            return
        again = {offset for part, _ in added for offset in part}
        before, self.entries = self.entries, []
        for part, entry in before:
            kept = neighbours([offset for offset in part if offset not in again])
            self.entries += [(piece, entry) for piece in kept]
        for part, entry in added:
            if self.entries and self._expires_too(part, entry):
                part = [*self.entries.pop()[0], *part]
            self.entries.append((part, entry))
        self.dropped += update.dropped
        while len(self.entries) > update.limit:
            self.dropped += len(self.entries.pop(0)[0])

    def _expires_too(self, part: list[int], entry: FailedRecords) -> bool:
        offsets, before = self.entries[-1]
        return (
            offsets[-1] + 1 == part[0]
            and before.disposition == entry.disposition == Disposition.EXPIRED
            and before.delivery_count == entry.delivery_count
        )

    def end_before(self, start: int) -> NaiveJournal:
        kept = [([offset for offset in part if offset < start], entry) for part, entry in self.entries]
        return NaiveJournal([(part, entry) for part, entry in kept if part], self.dropped)

    def reply(self) -> FailedReply:
        records = [entry._replace(first=part[0], last=part[-1]) for part, entry in self.entries]
        return FailedReply(tuple(records), self.dropped)


@dataclass
class Partition:
    state_epoch: int
    leader_epoch: int
    start_offset: int
    count: int
    offsets: NaiveRuns = field(default_factory=NaiveRuns)
    journal: NaiveJournal = field(default_factory=NaiveJournal)
    kept_since: int = 0

    def finished(self, offset: int) -> bool:
        (_, state), _ = self.offsets.values.get(offset, ((0, 0), None))
        return offset < self.start_offset or state in (2, 4)


class Model:
    def __init__(self) -> None:
        self.partitions: dict[SharePartitionKey, Partition] = {}

    def run(self, command: Command) -> Reply:
        match command:
            case Initialize():
                self.initialize(command)
                return None
            case Read():
                return self.read(command)
            case Write():
                self.write(command)
                return None
            case Delete():
                self.delete(command)
                return None
            case ListTopics():
                return frozenset(key.topic_id for key in self.partitions)
            case DeleteTopicState(topic_id):
                gone = [key for key in self.partitions if key.topic_id == topic_id]
                for key in gone:
                    del self.partitions[key]
                return len(gone)
            case Summarize(key):
                there = self.partitions.get(key)
                if there is None:
                    return SummaryReply()
                notes = [note for _, note in there.offsets.values.values() if note is not None]
                locks = [bool(note.lock_token) for note in notes if note.not_before_ms == FUTURE_MS]
                return SummaryReply(
                    there.state_epoch,
                    there.leader_epoch,
                    there.start_offset,
                    there.count,
                    len(locks) - sum(locks),
                    sum(locks),
                )
            case ReadFailed(key):
                there = self.partitions.get(key)
                return FailedReply() if there is None else there.journal.reply()
        raise AssertionError(command)

    def initialize(self, command: Initialize) -> None:
        key, state_epoch, start_offset, keep_existing, start_has_epoch, since_epoch = command
        if state_epoch < 0:
            raise Rejected(ErrorCode.INVALID_REQUEST)
        there = self.partitions.get(key)
        leader_epoch, journal = 0, NaiveJournal()
        if there is not None:
            if there.state_epoch > state_epoch:
                raise Rejected(ErrorCode.FENCED_STATE_EPOCH)
            known = start_has_epoch or start_offset == there.start_offset
            keeps = (keep_existing or start_offset == -1) and there.state_epoch >= since_epoch
            if keeps or (there.state_epoch == state_epoch and known):
                if there.state_epoch < state_epoch and not there.kept_since:
                    there.kept_since = there.state_epoch
                there.state_epoch = state_epoch
                return
            leader_epoch, journal = there.leader_epoch, there.journal.end_before(start_offset)
        count = -1 if start_offset == -1 else 0
        self.partitions[key] = Partition(state_epoch, leader_epoch, start_offset, count, journal=journal)

    def delete(self, command: Delete) -> None:
        key, epoch = command
        if epoch is not None:
            if epoch < 0:
                raise Rejected(ErrorCode.INVALID_REQUEST)
            if key in self.partitions and self.partitions[key].state_epoch > epoch:
                raise Rejected(ErrorCode.FENCED_STATE_EPOCH)
        self.partitions.pop(key, None)

    def read(self, command: Read) -> ReadReply | LeaseRequired:
        there = self.partitions.get(command.key)
        if command.leader_epoch < 0 or there is None:
            raise Rejected(ErrorCode.INVALID_REQUEST)
        if there.leader_epoch > command.leader_epoch:
            raise Rejected(ErrorCode.FENCED_LEADER_EPOCH)
        if there.leader_epoch < command.leader_epoch:
            if command.lease_epoch is None:
                return LeaseRequired()
            if command.lease_epoch < command.leader_epoch:
                raise Rejected(ErrorCode.UNKNOWN_LEADER_EPOCH)
        there.leader_epoch = command.leader_epoch
        return ReadReply(there.state_epoch, there.start_offset, tuple(there.offsets.runs()), there.kept_since)

    def write(self, command: Write) -> None:
        there = self.partitions.get(command.key)
        if there is None or (command.replaces and command.start_offset < 0):
            raise Rejected(ErrorCode.INVALID_REQUEST)
        if there.leader_epoch > command.leader_epoch:
            raise Rejected(ErrorCode.FENCED_LEADER_EPOCH)
        if there.state_epoch > command.state_epoch:
            raise Rejected(ErrorCode.FENCED_STATE_EPOCH)
        if command.failed is not None:
            there.journal.add(command.failed, there.finished)
        if command.replaces:
            there.offsets.values.clear()
            there.start_offset, there.count = command.start_offset, command.delivery_complete_count
            there.offsets.add(command.state_batches, there.start_offset)
            return
        start = there.start_offset if command.start_offset == -1 else command.start_offset
        if start > there.start_offset:
            there.start_offset, there.count = start, command.delivery_complete_count
        elif start == there.start_offset:
            there.count = max(there.count, command.delivery_complete_count)
        there.offsets.add(command.state_batches, there.start_offset)
