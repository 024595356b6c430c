"""Moves failed records to the dead letter topics of their groups.

Theory of operation
-------------------

The effect `archiving` of a core adds its share-partition to the mover, once archiving records are durable.
The mover sends their letters in offset order to the leader of the group's topic, in portions of up to
MAX_LETTERS records or 1 MiB, and reports them as written. The next portion follows after those of other
share-partitions. Up to MOVES_AT_ONCE portions are in progress, so that one topic without a leader does not
delay the letters of other groups.

*Once.* The topic's leader recognises letters that it has (`append.py`). A request of unknown outcome is
repeated at the same partition, even if partitions were added since.

*Failure.* With the policy `hold` the records stay ARCHIVING, and the letters are sent again after a pause
that grows to 30 s, indefinitely. With `archive` records become ARCHIVED without a letter, as in Kafka. The
cause is logged when it changes, not at each attempt. Settings are read before each attempt.

*Not written.* A record gets no letter if it is a transaction marker, if it was a dead letter MAX_HOPS times,
or if the topic is its own source: the letter would fail again. These are counted by cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import random
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.offset_spans import joined
from sharebroker_server.share_partition_leader.core.events import LettersWritten
from sharebroker_server.share_partition_leader.core.letter_note import MAX_LETTERS
from sharebroker_server.share_partition_leader.dead_letters.archiving import ArchivingPartition
from sharebroker_server.share_partition_leader.dead_letters.counts import LetterCounts, SkipCause
from sharebroker_server.share_partition_leader.dead_letters.sending import LetterSender, failed_records
from sharebroker_server.share_partition_leader.dead_letters.target import (
    LetterSettings,
    gives_up,
    pause_after,
    refusal,
)

if TYPE_CHECKING:
    from sharebroker_server.routing.router import Router

_log = structlog.get_logger()

MOVES_AT_ONCE: Final = 8
"""Portions of letters in progress in this process."""


@dataclass(slots=True)
class _Progress:
    """The attempts for one share-partition since its last success.

    `sent_to` is where letters of unknown outcome were sent: topic id and partition.
    """

    attempts: int = 0
    sent_to: tuple[str, int] | None = None
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Failure:
    """Why letters of a group fail, and of which share-partitions."""

    cause: str = ""
    partitions: set[ArchivingPartition] = field(default_factory=set)


class DeadLetterMover:
    """Moves the archiving records of this process' share-partitions."""

    def __init__(
        self,
        router: Router,
        settings: LetterSettings,
        counts: LetterCounts,
        jitter: Callable[[], float] = random,
        clients: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> None:
        """`clients`: client ids by group and member."""
        self._sender = LetterSender(router, counts)
        self._settings = settings
        self._counts = counts
        self._clients = clients
        self._jitter = jitter
        self._progress: dict[ArchivingPartition, _Progress] = {}
        self._ready: dict[ArchivingPartition, None] = {}
        self._moving: dict[ArchivingPartition, asyncio.Task[None]] = {}
        self._failures: dict[str, _Failure] = {}
        self._stopped = False

    def add(self, partition: ArchivingPartition) -> None:
        """Moves the archiving records of a share-partition, unless a pause after a failure is in progress."""
        if self._stopped or partition in self._progress:
            return
        self._progress[partition] = _Progress()
        self._enqueue(partition)

    def partitions(self) -> list[ArchivingPartition]:
        """Returns the share-partitions with letters to write."""
        return [partition for partition in self._progress if not partition.retired]

    async def stop(self) -> None:
        """Ends the portions in progress; the next leaders send them again."""
        self._stopped = True
        self._ready.clear()
        for progress in self._progress.values():
            if progress.timer is not None:
                progress.timer.cancel()
        await end(list(self._moving.values()))

    # Order

    def _enqueue(self, partition: ArchivingPartition) -> None:
        self._ready[partition] = None
        self._start()

    def _start(self) -> None:
        while self._ready and len(self._moving) < MOVES_AT_ONCE:
            partition = next(iter(self._ready))
            del self._ready[partition]
            self._moving[partition] = asyncio.create_task(self._move(partition), name="dead letters")

    async def _move(self, partition: ArchivingPartition) -> None:
        """Sends one portion, and arranges the next."""
        progress = self._progress[partition]
        pause = 0.0
        try:
            try:
                pause = await self._attempt(partition, progress)
            except KafkaError as error:
                pause = self._failed(partition, progress, error)
        except Exception:
            _log.exception("dead letters failed", group=partition.key.group_id, topic=partition.topic)
            progress.attempts += 1
            pause = pause_after(progress.attempts, self._jitter())
        finally:
            del self._moving[partition]
            self._next(partition, progress, pause)

    def _next(self, partition: ArchivingPartition, progress: _Progress, pause: float) -> None:
        if self._stopped:
            return
        if partition.retired or not partition.core.archiving(1):
            del self._progress[partition]
            self._end_failure(partition)
            self._start()
        elif pause:
            loop = asyncio.get_running_loop()
            progress.timer = loop.call_later(pause, self._enqueue, partition)
            self._start()
        else:
            self._enqueue(partition)

    # One portion

    async def _attempt(self, partition: ArchivingPartition, progress: _Progress) -> float:
        """Sends the next letters; returns the pause before the following ones, in seconds."""
        runs = [] if partition.retired else partition.core.archiving(MAX_LETTERS)
        if not runs:
            return 0.0
        group_id = partition.key.group_id
        target = self._settings.target(group_id)
        topic = self._settings.topic(target.topic)
        cause = refusal(group_id, target.topic, topic, self._settings)
        if cause:
            raise KafkaError(ErrorCode.INVALID_CONFIG, cause)
        if topic is None:
            await self._settings.create(target.topic)
            topic = self._settings.topic(target.topic)
            if topic is None:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"Topic {target.topic} is not known yet.")
        failed = list(failed_records(runs, self._clients, group_id))
        if topic.topic_id == partition.key.topic_id:
            self._counts.skip(partition, SkipCause.OWN_TOPIC, len(failed))
            return self._done(partition, progress, [record.offset for record in failed])
        own = self._settings.topic(partition.topic)
        decode = own is not None and own.enabled  # its records may be letters
        portion = await self._sender.portion(partition, failed, topic, copy=target.copy, decode=decode)
        if portion.offsets:
            if progress.sent_to is None or progress.sent_to[0] != topic.topic_id:
                progress.sent_to = topic.topic_id, partition.key.partition % topic.partitions
            await self._sender.send(partition, portion, topic, progress.sent_to[1])
            self._counts.written(partition, failed, frozenset(portion.offsets))
        return self._done(partition, progress, portion.completed)

    def _done(self, partition: ArchivingPartition, progress: _Progress, offsets: Sequence[int]) -> float:
        """Reports offsets as written; returns no pause."""
        progress.attempts, progress.sent_to = 0, None
        if not partition.retired:
            partition.handle(LettersWritten(joined((offset, offset) for offset in offsets)))
        self._end_failure(partition)
        return 0.0

    def _failed(self, partition: ArchivingPartition, progress: _Progress, error: KafkaError) -> float:
        """Handles a failed attempt by the policy of the group; returns the pause before the next."""
        target = self._settings.target(partition.key.group_id)
        details = {
            "group": partition.key.group_id,
            "dead_letter_topic": target.topic,
            "reason": error.message,
        }
        is_new = self._begin_failure(partition, error.message)
        progress.attempts += 1
        if not gives_up(target.policy, error.code, progress.attempts):
            if is_new:
                _log.warning("dead letters are held", **details)
            return pause_after(progress.attempts, self._jitter())
        if is_new:
            _log.error("Failed to write to DLQ, proceeding to ARCHIVED regardless.", **details)
        progress.attempts, progress.sent_to = 0, None
        runs = [] if partition.retired else partition.core.archiving(MAX_LETTERS)
        if runs:
            self._counts.skip(partition, SkipCause.FAILED, sum(run.last - run.first + 1 for run in runs))
            partition.handle(LettersWritten([(run.first, run.last) for run in runs]))
        return 0.0

    def _begin_failure(self, partition: ArchivingPartition, cause: str) -> bool:
        """Stores that a share-partition failed; returns whether the cause of its group is new."""
        failure = self._failures.setdefault(partition.key.group_id, _Failure())
        failure.partitions.add(partition)
        if failure.cause == cause:
            return False
        failure.cause = cause
        return True

    def _end_failure(self, partition: ArchivingPartition) -> None:
        """Logs the end of a failure once no share-partition of the group fails."""
        group_id = partition.key.group_id
        failure = self._failures.get(group_id)
        if failure is None or partition not in failure.partitions:
            return
        failure.partitions.discard(partition)
        if not failure.partitions:
            del self._failures[group_id]
            _log.info("dead letters are written again", group=group_id)
