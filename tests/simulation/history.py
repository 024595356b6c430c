"""The events of a run: checked as they happen, kept as a history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.model import MESSAGE_ID_HEADER, SharePartitionKey, StateWrite
from sharebroker_protocol.records.record import FOR_GROUP_HEADER, RETRY_OF_HEADER
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.core.share_control import control_records
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
)
from sharebroker_server.share_coordinator.store.codec import ShareRecordCodec
from sharebroker_server.share_coordinator.store.control_format import decode
from tests.simulation.letters import has_letters, letters_of
from tests.simulation.plan import Step
from tests.testkit.checker.checker import Checker
from tests.testkit.checker.events import (
    Addressed,
    Appended,
    Claimed,
    Event,
    Expired,
    Forgotten,
    Happened,
    Hidden,
    LogsRead,
    Run,
    Share,
    Stored,
    WriteBegan,
    WriteEnded,
    Written,
    in_journal,
)
from tests.testkit.idempotent_producer import values_of
from tests.testkit.simulator.faults import CommandOutcome
from tests.testkit.simulator.outside import EPOCH

_STATE_LOG = "share-coordinator:"

EXPIRED: Final = "expired-"
"""The start of the values of records that are older than every group permits."""


class History:
    """Feeds the checker; `clock` returns the seconds of the run."""

    def __init__(self, checker: Checker, clock: Callable[[], float]) -> None:
        self.checker = checker
        self.events: list[Event] = []
        self.failure: BaseException | None = None
        self.log_ends: dict[tuple[str, int], int] = {}
        self.topics: dict[str, str] = {}
        self.watched: dict[str, dict[int, str]] = {}
        """The values of topics that `topics` does not name, by topic id and offset."""
        self.deleted: set[str] = set()
        """Ids of deleted topics: a late request may still be appended to their logs."""
        self.unjudged: set[str] = set()
        """Groups whose stored state is not judged."""
        self._ended: set[SharePartitionKey] = set()
        """Deleted state of deleted topics: a late request may initialise it again, and no leader reads it."""
        self.on_step: Callable[[Step, Share], object] = lambda *_: None
        """Called when a step of a dead letter is in the store."""
        self.on_failure: Callable[[], object] = lambda: None
        """Called once: events after a failure are ignored."""
        self._clock = clock
        self._codec = ShareRecordCodec()
        self._closed = False

    def add(self, event: Event) -> None:
        """Adds an event; the first that breaks an invariant becomes the failure of the run."""
        if self._closed:
            return
        self.events.append(event)
        try:
            self.checker.feed(event)
        except AssertionError as violation:
            self.fail(violation)

    def fail(self, failure: BaseException) -> None:
        """Fails the run; later events no longer count."""
        first, self._closed = self.failure is None, True
        self.failure = self.failure or failure
        if first:
            self.on_failure()

    def close(self) -> None:
        """Closes the history: events of the shutdown are not part of it."""
        self._closed = True

    def log(self, what: str) -> None:
        """Records a fault or another step of the run."""
        self.add(Happened(self._clock(), what))

    def text(self) -> str:
        """Returns the history, one event per line."""
        return "\n".join(f"{event.at:10.6f} {_described(event)}" for event in self.events)

    # Events of leaders

    def write_began(self, key: SharePartitionKey, change: StateWrite) -> int:
        """Records that a leader starts a state write; returns its number."""
        number = len(self.events)
        share = self._share(*key)
        self.add(WriteBegan(self._clock(), number, share, change.state_epoch, change.leader_epoch))
        return number

    def write_ended(self, number: int) -> None:
        """Records that the write succeeded."""
        self.add(WriteEnded(self._clock(), number))

    # Events of the store

    def command_fails(self, node: str, command: str, fate: CommandOutcome) -> None:
        """See Witness."""
        self.log(f"{node}: {command} is {fate.value}")

    def lease_claimed(self, resource: str, epoch: int) -> None:
        """See Witness."""
        self.add(Claimed(self._clock(), resource, epoch))

    def records_written(self, shard: str, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        """See Witness."""
        now = self._clock()
        self.add(Appended(now, shard, epoch, first, first + len(payloads) - 1))
        if not shard.startswith(_STATE_LOG):
            return
        for payload in payloads:
            self._state_written(now, self._codec.decode(payload))

    def _state_written(self, now: float, record: ShareRecord) -> None:
        if record.key.group_id in self.unjudged:
            return
        if isinstance(record, ShareCheckpoint | ShareDelta) and record.key not in self._ended:
            self.add(stored := self._stored(now, record))
            self._notice_steps(stored)
        elif isinstance(record, CheckpointTombstone):
            if record.key.topic_id in self.deleted:
                self._ended.add(record.key)
            self.add(Forgotten(now, self._share(*record.key)))

    def batches_written(self, partition: str, epoch: int, batches: Sequence[StoredBatch]) -> None:
        """See Witness."""
        if not batches:
            return
        last = batches[-1].last_offset
        topic_id, number = names.topic_partition(partition)
        letters = has_letters(batches[0])
        if not letters and topic_id not in self.topics:
            # A late request by name may reach a topic before the response to its creation arrives.
            records = [batch for batch in batches if not batch.has_share_state]
            self._watch(self.watched.setdefault(topic_id, {}), records)
        if topic_id in self.deleted:
            return
        self.add(Appended(self._clock(), partition, epoch, batches[0].base_offset, last))
        batches = self._without_state(topic_id, number, batches)
        if not batches:
            return
        last = batches[-1].last_offset
        if letters:
            self._add_letters(batches)
            return
        topic, now = self.topics.get(topic_id, topic_id), self._clock()
        self.log_ends[topic, number] = last + 1
        copies = [batch for batch in batches if FOR_GROUP_HEADER.encode() in batch.data]
        for batch in copies:
            self._add_copies(now, topic, number, batch)
        produced = [batch for batch in batches if batch not in copies]
        for batch in produced:
            if EXPIRED.encode() in batch.data:
                self.add(Expired(now, topic, number, batch.base_offset, batch.last_offset))
        once = [bytes(batch.data) for batch in produced if _is_stored_once(batch)]
        for value in values_of(once):
            self.add(Written(now, topic, number, value))

    def _without_state(
        self, topic_id: str, partition: int, batches: Sequence[StoredBatch]
    ) -> list[StoredBatch]:
        """Adds the state of share groups, whose offsets no member receives; returns the other batches."""
        now, topic = self._clock(), self.topics.get(topic_id, topic_id)
        for batch in batches:
            if batch.has_share_state:
                self.add(Hidden(now, topic, partition, batch.base_offset, batch.last_offset))
                for _, record in control_records(batch):
                    self._state_written(now, decode(record, topic_id, partition).record)
        return [batch for batch in batches if not batch.has_share_state]

    @staticmethod
    def _watch(values: dict[int, str], batches: Sequence[StoredBatch]) -> None:
        for batch in batches:
            values.update((record.offset, record.value.decode()) for record in DefaultRecordBatch(batch.data))

    def _add_letters(self, batches: Sequence[StoredBatch]) -> None:
        for batch in batches:
            for letter in letters_of(self._clock(), batch):
                self.add(letter)
                self.on_step(Step.LETTER, letter.share)

    def _notice_steps(self, stored: Stored) -> None:
        for step in (Step.ARCHIVING, Step.ARCHIVED):
            if any(run.state == step.value for run in stored.runs):
                self.on_step(step, stored.share)
        if not stored.whole and any(run.deliveries and not run.state for run in stored.runs):
            self.on_step(Step.RELEASED, stored.share)

    def _add_copies(self, now: float, topic: str, partition: int, batch: StoredBatch) -> None:
        for record in DefaultRecordBatch(batch.data):
            headers = dict(record.headers)
            group, source = headers[FOR_GROUP_HEADER].decode(), headers[RETRY_OF_HEADER].decode()
            share = Share(group, topic, partition)
            self.add(Addressed(now, share, int(source.split("/")[-1]), record.offset, record.value.decode()))

    def _share(self, group: str, topic_id: str, partition: int) -> Share:
        return Share(group, self.topics.get(topic_id, topic_id), partition)

    def _stored(self, now: float, record: ShareCheckpoint | ShareDelta) -> Stored:
        return Stored(
            now,
            self._share(*record.key),
            isinstance(record, ShareCheckpoint),
            record.state_epoch if isinstance(record, ShareCheckpoint) else -1,
            record.leader_epoch,
            record.start_offset,
            tuple(Run.of(batch, EPOCH) for batch in record.state_batches),
            *in_journal(record.failed),
        )


def _is_stored_once(batch: StoredBatch) -> bool:
    """Returns whether the records have sequence numbers or message ids."""
    return header_of(batch.data).producer_id >= 0 or MESSAGE_ID_HEADER.encode() in batch.data


def _described(event: Event) -> str:
    if isinstance(event, Happened):
        return event.what
    if isinstance(event, LogsRead):
        return f"LogsRead share={event.share}"
    fields = (f"{name}={getattr(event, name)}" for name in event.__slots__)
    return f"{type(event).__name__} {' '.join(fields)}"
