"""Copies records of a log for one share group: reads them, encodes the copies, and appends these."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence, Set
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.records.batches import CODECS, BatchBuilder, Header
from sharebroker_protocol.records.record import FOR_GROUP_HEADER, RETRY_OF_HEADER
from sharebroker_server.record_log.appends import Appended, Noted
from sharebroker_server.record_log.core.addressed import CopyAddress, check_not_copied, note_of
from sharebroker_server.record_log.core.batch import Buffer, StoredBatch, header_of, parse_headers
from sharebroker_server.record_log.core.notes import NotesDraft
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.record_validation import plain_batch

_RECORDS_AT_ONCE: Final = 1_000
"""Records that are read in one turn of the event loop."""

_OWN: Final = frozenset((FOR_GROUP_HEADER, RETRY_OF_HEADER))


class CopySource(NamedTuple):
    """A record to copy."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")


async def uncompressed(batch: StoredBatch) -> Buffer:
    """Returns a batch without compression; a thread unpacks it, since that takes long for a large one."""
    header = header_of(batch.data)
    return await asyncio.to_thread(plain_batch, header, batch.data) if header.codec else batch.data


def read_sources(
    plain: Buffer, wanted: Set[int], room: int
) -> Generator[None, None, tuple[dict[int, CopySource], int]]:
    """Reads wanted records of a batch by offset, until they have `room` bytes.

    Returns them, and the offset up to which the batch was read. Yields after each portion.
    """
    found: dict[int, CopySource] = {}
    last = header_of(plain).last_offset
    for number, record in enumerate(DefaultRecordBatch(plain), 1):
        if record.offset in wanted:
            source = CopySource(record.offset, record.key, record.value, record.headers)
            found[record.offset] = source
            room -= source.size
            if room <= 0:
                return found, record.offset
        if number % _RECORDS_AT_ONCE == 0:
            yield
    return found, last


def encoded(
    sources: Iterable[CopySource], address: CopyAddress, place: str, limit: int, now_ms: int
) -> tuple[bytes, list[int]]:
    """Returns a batch with copies of the first sources, as many as fit, and the offsets of these.

    `place` is topic/partition. The copies have the time `now_ms`. A source above `limit` bytes has a batch of
    its own.
    """
    copies = (
        source._replace(headers=copy_headers(source.headers, address.group_id, f"{place}/{source.offset}"))
        for source in sources
    )
    return packed(copies, limit, now_ms)


def packed(copies: Iterable[CopySource], limit: int, now_ms: int) -> tuple[bytes, list[int]]:
    """Returns a batch of the first copies, as many as fit, and the offsets of their sources."""
    builder = BatchBuilder(CODECS["none"], limit)
    taken: list[int] = []
    for offset, key, value, headers in copies:
        if not builder.append(now_ms, key, value, headers):
            break
        taken.append(offset)
    return (builder.build() if taken else b""), taken


def copy_headers(headers: Iterable[Header], group_id: str, source: str) -> list[Header]:
    """Returns the headers of a copy; `source` is topic/partition/offset. No group id: for all groups."""
    kept = [header for header in headers if header[0] not in _OWN]
    if group_id:
        kept.append((FOR_GROUP_HEADER, group_id.encode()))
    return [*kept, (RETRY_OF_HEADER, source.encode())]


async def append_copies(
    log: PartitionLog, data: bytes, offsets: Sequence[int], address: CopyAddress
) -> Appended:
    """Appends a batch with copies of the records at these offsets, which only one share group receives.

    Message ids and delivery times of the copies do not count.

    Raises:
        AlreadyCopiedError: the request copied one of the records before.
        KafkaError: MESSAGE_TOO_LARGE; else as `PartitionLog.append_noted`.
    """
    headers = parse_headers(data, log.settings.max_message_bytes)

    def decide(notes: NotesDraft, base_offset: int) -> Noted:
        known = (*log.transactions.notes.items(), *notes.changed.items())
        check_not_copied(known, offsets, address)
        return Noted(data, headers, note_of(offsets, base_offset, address))

    return await log.append_noted(decide, len(data))
