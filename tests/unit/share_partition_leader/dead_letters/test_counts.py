"""Counts of dead letters by group and topic."""

from __future__ import annotations

from typing import Any, cast

from sharebroker_protocol import clock
from sharebroker_protocol.model import Disposition, SharePartitionKey
from sharebroker_server.share_partition_leader.core.events import ArchivingRecords, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.in_flight import InFlight
from sharebroker_server.share_partition_leader.dead_letters.counts import LetterCounts, SkipCause
from sharebroker_server.share_partition_leader.dead_letters.letters import FailedRecord


class Partition:
    """A share-partition with archiving records."""

    def __init__(self, group: str, time_ms: int = 1, archiving: int = 1) -> None:
        self.settings = SharePartitionSettings(max_archiving=100)
        self.in_flight = InFlight(0)
        self.in_flight.archiving = archiving
        self.key = SharePartitionKey(group, "T", 0)
        self.topic = "orders"
        self.core = self
        self._time_ms = time_ms

    def archiving(self, limit: int) -> list[ArchivingRecords]:
        return [ArchivingRecords(1, 1, 1, 1, "", self._time_ms, "")][:limit]


def found(counts: LetterCounts, name: str) -> dict[tuple[str, ...], float]:
    return {
        sample.labels: sample.value
        for family in counts.families()
        if family.name == f"sharebroker_share_group_{name}"
        for sample in family.samples
    }


def test_letters_are_counted_by_disposition() -> None:
    counts = LetterCounts(lambda: 9)
    records = [FailedRecord(offset, 1, kind) for offset, kind in enumerate((1, 1, 2, 3, 0))]
    counts.written(cast("Any", Partition("g")), records, frozenset({0, 2, 3, 4}))
    labels = ("group", "g", "topic", "orders", "disposition")
    assert found(counts, "dead_letters_total") == {
        (*labels, "rejected"): 2,
        (*labels, "exhausted"): 1,
        (*labels, "expired"): 1,
    }
    assert len(Disposition) == 3


def test_further_groups_are_counted_together() -> None:
    counts = LetterCounts(lambda: 1)
    for group in ("a", "b", "c"):
        counts.appends(cast("Any", Partition(group)))
        counts.failure(cast("Any", Partition(group)))
        counts.skip(cast("Any", Partition(group)), SkipCause.MARKER, 2)
    for name in ("dead_letter_appends_total", "dead_letter_append_failures_total"):
        assert found(counts, name) == {
            ("group", "a", "topic", "orders"): 1,
            ("group", "other", "topic", "other"): 2,
        }
    skipped = found(counts, "dead_letters_skipped_total")
    assert skipped["group", "other", "topic", "other", "why", "marker"] == 4


def test_the_oldest_archiving_record_of_a_group_is_reported() -> None:
    counts = LetterCounts(lambda: 9)
    partitions = [Partition("g", 5_000), Partition("g", 3_000), Partition("g", 4_000), Partition("g", 0)]
    counts.appends(cast("Any", partitions[0]))
    counts.archiving = lambda: cast("Any", partitions)
    with clock.counted_by(lambda: 10.0):
        assert found(counts, "archiving_oldest_seconds") == {("group", "g", "topic", "orders"): 7.0}
    with clock.counted_by(lambda: 2.0):  # the clock of the leader that stored the time was ahead
        assert found(counts, "archiving_oldest_seconds") == {("group", "g", "topic", "orders"): 0.0}


def test_share_partitions_at_the_limit_of_archiving_records_are_counted() -> None:
    counts = LetterCounts(lambda: 9)
    partitions = [Partition("g", archiving=99), Partition("g", archiving=100), Partition("g", archiving=101)]
    counts.appends(cast("Any", partitions[0]))
    counts.archiving = lambda: cast("Any", partitions)
    assert found(counts, "archiving_full_partitions") == {("group", "g", "topic", "orders"): 2}
