"""Counts of dead letters by group and topic, and what is archiving now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from sharebroker_protocol.clock import now
from sharebroker_protocol.model import Disposition
from sharebroker_server.share_partition_leader.metrics.counters import OTHER, GroupTopic
from sharebroker_server.telemetry.metrics import Family, counter, gauge

if TYPE_CHECKING:
    from sharebroker_server.share_partition_leader.dead_letters.archiving import ArchivingPartition
    from sharebroker_server.share_partition_leader.dead_letters.letters import FailedRecord


class SkipCause(StrEnum):
    """Why a record is archived without a letter."""

    MARKER = "marker"
    """It is a transaction marker."""
    HOPS = "hops"
    """It was a dead letter too often."""
    OWN_TOPIC = "own_topic"
    """Its topic is the dead letter topic."""
    FAILED = "failed"
    """The policy of the group is `archive`, and the letter could not be written."""


@dataclass(slots=True)
class _Counts:
    written: dict[int, int] = field(default_factory=lambda: dict.fromkeys(Disposition, 0))
    skipped: dict[SkipCause, int] = field(default_factory=lambda: dict.fromkeys(SkipCause, 0))
    appends: int = 0
    failures: int = 0


class LetterCounts:
    """Counters by group and topic. `limit`: beyond so many, further ones are counted as `other`."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._counts: dict[GroupTopic, _Counts] = {}
        self.archiving: Callable[[], Sequence[ArchivingPartition]] = list
        """Returns the share-partitions with archiving records."""

    def written(
        self, partition: ArchivingPartition, failed: Iterable[FailedRecord], offsets: Set[int]
    ) -> None:
        """Counts the letters of these offsets by disposition."""
        counts = self._of(partition).written
        for record in failed:
            if record.offset in offsets:
                known = record.disposition if record.disposition in counts else Disposition.REJECTED
                counts[known] += 1

    def skip(self, partition: ArchivingPartition, cause: SkipCause, number: int = 1) -> None:
        """Counts records without a letter."""
        self._of(partition).skipped[cause] += number

    def appends(self, partition: ArchivingPartition) -> None:
        """Counts a request with letters."""
        self._of(partition).appends += 1

    def failure(self, partition: ArchivingPartition) -> None:
        """Counts a request that failed."""
        self._of(partition).failures += 1

    def families(self) -> Iterator[Family]:
        """Returns the metric families; see Collector."""
        counted = [
            (("group", pair.group, "topic", pair.topic), counts) for pair, counts in self._counts.items()
        ]
        yield counter(
            "sharebroker_share_group_dead_letters_total",
            "Dead letters written, by disposition (Kafka: DeadLetterQueueRecordCount).",
            (
                ((*labels, "disposition", Disposition(kind).name.lower()), number)
                for labels, counts in counted
                for kind, number in counts.written.items()
            ),
        )
        yield counter(
            "sharebroker_share_group_dead_letter_appends_total",
            "Requests with dead letters (Kafka: DeadLetterQueueTotalProduceRequestsPerSec).",
            ((labels, counts.appends) for labels, counts in counted),
        )
        yield counter(
            "sharebroker_share_group_dead_letter_append_failures_total",
            "Failed requests with dead letters (Kafka: DeadLetterQueueFailedProduceRequestsPerSec).",
            ((labels, counts.failures) for labels, counts in counted),
        )
        yield counter(
            "sharebroker_share_group_dead_letters_skipped_total",
            "Failed records that were archived without a dead letter, by cause.",
            (
                ((*labels, "why", cause.value), number)
                for labels, counts in counted
                for cause, number in counts.skipped.items()
            ),
        )
        yield from self._gauges()

    def _gauges(self) -> Iterator[Family]:
        now_ms = now() * 1000
        oldest: dict[GroupTopic, float] = {}
        full: Counter[GroupTopic] = Counter()
        for partition in self.archiving():
            pair, core = self._pair(partition), partition.core
            full[pair] += core.in_flight.is_archiving_full(core.settings)
            for run in core.archiving(1):
                age = max(now_ms - run.time_ms, 0.0) / 1000 if run.time_ms else 0.0
                oldest[pair] = max(oldest.get(pair, 0.0), age)
        yield gauge(
            "sharebroker_share_group_archiving_oldest_seconds",
            "Time since the failure of the first record that waits for its dead letter.",
            ((("group", pair.group, "topic", pair.topic), age) for pair, age in oldest.items()),
        )
        yield gauge(
            "sharebroker_share_group_archiving_full_partitions",
            "Share-partitions that deliver no records, because too many of theirs wait for dead letters.",
            ((("group", pair.group, "topic", pair.topic), number) for pair, number in full.items()),
        )

    def _pair(self, partition: ArchivingPartition) -> GroupTopic:
        pair = GroupTopic(partition.key.group_id, partition.topic)
        return pair if pair in self._counts else OTHER

    def _of(self, partition: ArchivingPartition) -> _Counts:
        pair = GroupTopic(partition.key.group_id, partition.topic)
        found = self._counts.get(pair)
        if found is None:
            pair = pair if len(self._counts) < self._limit() else OTHER
            found = self._counts.setdefault(pair, _Counts())
        return found
