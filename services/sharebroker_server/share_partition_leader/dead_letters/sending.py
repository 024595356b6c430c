"""Makes the letters of one portion of archiving records, and sends them to the dead letter topic."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns
from sharebroker_server.leader_calls.values import LettersCall
from sharebroker_server.routing.router import Router
from sharebroker_server.share_partition_leader.core.events import ArchivingRecords
from sharebroker_server.share_partition_leader.dead_letters import letters as making
from sharebroker_server.share_partition_leader.dead_letters.archiving import ArchivingPartition
from sharebroker_server.share_partition_leader.dead_letters.counts import LetterCounts, SkipCause
from sharebroker_server.share_partition_leader.dead_letters.source import (
    ReadRecords,
    RecordReader,
    has_copies,
)
from sharebroker_server.share_partition_leader.dead_letters.target import DeadLetterTopic

APPEND_TIMEOUT: Final = 30.0
"""Seconds before an append of letters counts as failed, with an unknown outcome."""

MADE_AT_ONCE: Final = 100
"""Letters that are made in one turn of the event loop."""


class LetterPortion(NamedTuple):
    """Letters to send: their source offsets, all offsets that are done with them, and their batch.

    `offsets` is shorter if records get no letter.
    """

    offsets: Sequence[int]
    completed: Sequence[int]
    records: bytes


class LetterSender:
    """Makes and sends letters for all share-partitions of a process."""

    def __init__(self, router: Router, counts: LetterCounts) -> None:
        self._router = router
        self._counts = counts
        self._reader = RecordReader()
        self._turns = Turns()
        self._sequence = itertools.count(1)
        """Shared by all share-partitions: one that is loaded again under its leader epoch continues it."""

    async def portion(
        self,
        partition: ArchivingPartition,
        failed: Sequence[making.FailedRecord],
        topic: DeadLetterTopic,
        *,
        copy: bool,
        decode: bool,
    ) -> LetterPortion:
        """Reads the first failed records and makes one batch of letters. Raises KafkaError.

        Without `copy`, `decode` reads the records for their hops. Records that were redriven or retried have
        hops, too, so a portion with one of them is always read.
        """
        offsets = [record.offset for record in failed]
        needed = copy or decode or has_copies(partition.log, offsets)
        read = await self._reader.read(partition.log, offsets, decode=needed)
        failed = failed[: read.number]
        kept = [record for record in failed if not self._skipped(partition, record.offset, read)]
        key = partition.key
        source = making.LetterSource(key.group_id, partition.topic, key.topic_id, key.partition)
        made: list[making.Letter] = []
        async for some in self._turns.portions(kept, MADE_AT_ONCE):
            for record in some:
                original = read.records.get(record.offset)
                made.append(making.make_letter(source, record, original, copy=copy))
        records, count = making.build_batch(made, int(now() * 1000), topic.max_message_bytes)
        end = kept[count].offset if count < len(kept) else offsets[read.number - 1] + 1
        completed = [record.offset for record in failed if record.offset < end]
        return LetterPortion([record.offset for record in kept[:count]], completed, records if count else b"")

    def _skipped(self, partition: ArchivingPartition, offset: int, read: ReadRecords) -> bool:
        """Whether a record gets no letter."""
        original = read.records.get(offset)
        if offset in read.markers:
            self._counts.skip(partition, SkipCause.MARKER)
        elif original is not None and making.has_most_hops(original.headers):
            self._counts.skip(partition, SkipCause.HOPS)
        else:
            return False
        return True

    async def send(
        self, partition: ArchivingPartition, portion: LetterPortion, topic: DeadLetterTopic, number: int
    ) -> None:
        """Appends letters to a partition of the dead letter topic.

        Raises KafkaError; NOT_LEADER_OR_FOLLOWER if the share-partition has retired.
        """
        self._counts.appends(partition)
        try:
            peer = await self._router.leader(topic.topic_id, number)
            if partition.retired:  # its successor may have sent a request with a lower sequence
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "The share-partition has retired.")
            call = self._call(partition, portion, topic.topic_id, number)
            result = await peer.calls.append_letters(call, APPEND_TIMEOUT)
            if result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._router.forget_leader(topic.topic_id, number)
            if result.error_code:
                raise KafkaError(result.error_code, result.error_message)
        except KafkaError:
            self._counts.failure(partition)
            raise

    def _call(
        self, partition: ArchivingPartition, portion: LetterPortion, topic_id: str, number: int
    ) -> LettersCall:
        """Returns the next request: it states what is archiving now."""
        state_epoch, leader_epoch = partition.core.failed_under
        return LettersCall(
            topic_id,
            number,
            *partition.key,
            state_epoch,
            leader_epoch,
            next(self._sequence),
            portion.records,
            portion.offsets,
            partition.core.archiving_ranges(),
        )


def failed_records(
    runs: Sequence[ArchivingRecords], clients: Mapping[tuple[str, str], str], group_id: str
) -> Iterator[making.FailedRecord]:
    """Yields the records of runs, by offset; `clients` are client ids by group and member."""
    for first, last, count, disposition, reason, time_ms, member_id in runs:
        client_id = clients.get((group_id, member_id), "")
        for offset in range(first, last + 1):
            yield making.FailedRecord(offset, count, disposition, reason, time_ms, member_id, client_id)
