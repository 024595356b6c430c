"""Reads failed records from the source log, to copy them into their letters.

A compressed batch may unpack to 16 MiB with 250,000 records, and its records may fail in many portions. It is
unpacked in a thread and read in turns of the event loop. The position in the batch that was read last is
kept, so that the next portion continues there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Turns
from sharebroker_server.record_log.core.addressed import copies_in
from sharebroker_server.record_log.core.batch import StoredBatch, header_of
from sharebroker_server.record_log.log_reader import LogReader
from sharebroker_server.record_log.record_validation import UNREADABLE, plain_batch
from sharebroker_server.share_partition_leader.dead_letters.letters import OriginalRecord

READ_BYTES: Final = 1 << 20
"""Bytes of records that one portion copies, and of batches that one read returns."""

SLICE_RECORDS: Final = 500
"""Records that are decoded in one turn of the event loop."""


class ReadRecords(NamedTuple):
    """What was read for the first `number` of the requested offsets.

    `markers` are offsets of transaction markers, which are no records. An offset in neither is deleted or
    unreadable, or was not to be decoded.
    """

    number: int
    records: Mapping[int, OriginalRecord]
    markers: frozenset[int]


class _Position(NamedTuple):
    """A batch that is being read: the iterator of its records, and the first offset that it has not read."""

    partition: str
    base_offset: int
    next_offset: int
    records: Iterator[Any]


def has_copies(log: LogReader, offsets: Sequence[int]) -> bool:
    """Whether a redrive or a retry appended a record between the first and the last of the offsets."""
    copies = copies_in(log.transactions.notes, offsets[0], offsets[-1] + 1)
    return next(copies, None) is not None


class RecordReader:
    """Reads records for all share-partitions of a process."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._unpacking = asyncio.Lock()
        self._position: _Position | None = None

    async def read(self, log: LogReader, offsets: Sequence[int], *, decode: bool) -> ReadRecords:
        """Reads the records at ascending offsets, up to about READ_BYTES; without `decode` only markers.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
        """
        records: dict[int, OriginalRecord] = {}
        markers: set[int] = set()
        index = size = 0
        while index < len(offsets) and size < READ_BYTES:
            batches = await _batches(log, offsets[index])
            if not batches:  # the offset was deleted, or nothing follows it
                index += 1
            for batch in batches:
                passed = sum(1 for _ in takewhile(batch.last_offset.__ge__, islice(offsets, index, None)))
                wanted = [each for each in offsets[index : index + passed] if each >= batch.base_offset]
                if batch.control:
                    markers.update(wanted)
                elif wanted and decode:
                    found, resolved, read = await self._decode(log, batch, wanted, READ_BYTES - size)
                    records |= found
                    passed -= len(wanted) - resolved
                    size += read
                index += passed
                if size >= READ_BYTES or index == len(offsets):
                    break
        return ReadRecords(index, records, frozenset(markers))

    async def _decode(
        self, log: LogReader, batch: StoredBatch, wanted: Sequence[int], room: int
    ) -> tuple[dict[int, OriginalRecord], int, int]:
        """Returns records of a batch, how many of the wanted offsets were looked up, and their size."""
        found: dict[int, OriginalRecord] = {}
        remaining = set(wanted)
        size = read = 0
        try:
            position = await self._position_at(log.partition, batch, wanted[0])
            following = position.next_offset
            for record in position.records:
                following = record.offset + 1
                if record.offset in remaining:
                    found[record.offset] = OriginalRecord(record.key, record.value, tuple(record.headers))
                    size += len(record.key or b"") + len(record.value or b"")
                    remaining.discard(record.offset)
                read += 1
                if not read % SLICE_RECORDS:
                    await self._turns.next()
                if following > wanted[-1] or size >= room:
                    break
            self._position = position._replace(next_offset=following)
        except (KafkaError, *UNREADABLE):
            return found, len(wanted), size
        if size < room:
            return found, len(wanted), size
        return found, sum(offset < following for offset in wanted), size

    async def _position_at(self, partition: str, batch: StoredBatch, offset: int) -> _Position:
        """Returns the last position if it is in this batch and not above the offset, else the first."""
        position, self._position = self._position, None
        if (
            position is None
            or position[:2] != (partition, batch.base_offset)
            or position.next_offset > offset
        ):
            position = _Position(partition, batch.base_offset, batch.base_offset, await self._open(batch))
        return position

    async def _open(self, batch: StoredBatch) -> Iterator[Any]:
        header, plain = header_of(batch.data), batch.data
        if header.codec:
            async with self._unpacking:
                plain = bytes(await asyncio.to_thread(plain_batch, header, batch.data))
        return (record for record in DefaultRecordBatch(plain))  # its own iterator cannot be continued


async def _batches(log: LogReader, offset: int) -> Sequence[StoredBatch]:
    """Returns the batch of an offset and following ones; nothing if it was deleted."""
    try:
        return await log.read(offset, READ_BYTES)
    except KafkaError as error:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return ()
        raise
