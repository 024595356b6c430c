"""Reads the records of a dead letter topic, partition by partition, in bounded parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.admin.partitions import list_offsets
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.dead_letters import LetterRecord, ScanPosition
from sharebroker_server.gateway.log_fetch import LogFetchLimits, committed_batches, fetch_log, headers_of
from sharebroker_server.record_log.record_validation import UNREADABLE, plain_batch

MOST_RECORDS: Final = 20_000
"""Records that one part reads, and one batch beyond."""

MOST_BYTES: Final = 32 << 20
"""Bytes of batches that one part reads, and one fetch beyond."""

MOST_SECONDS: Final = 5.0
"""Seconds after which a part ends, and one fetch or batch beyond."""

FETCH_BYTES: Final = 1 << 20

_DECODED_AT_ONCE: Final = 500
_EARLIEST: Final = -2


def position_of(topic: Topic, page_token: str) -> ScanPosition:
    """Returns where a part begins. Raises INVALID_REQUEST."""
    position = ScanPosition.parsed(page_token) if page_token else ScanPosition()
    if position is None or position.partition >= topic.partitions:
        raise invalid_field("page_token", "page_token is not one of an earlier response.")
    return position


class LetterScan:
    """One part of a scan. `position` is where the next one begins, None at the end of the topic.

    It is behind the record that `records` yielded last, so that a caller may stop after any record.
    """

    def __init__(
        self,
        gateway: Gateway,
        topic: Topic,
        position: ScanPosition,
        deadline: Deadline,
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        self._gateway = gateway
        self._topic = topic
        self._fetch_bytes = fetch_bytes
        self._deadline = Deadline(min(MOST_SECONDS, deadline.remaining() / 2))
        self._bytes = 0
        self.position: ScanPosition | None = position
        self.scanned = 0

    @property
    def token(self) -> str:
        """The page token of the next part; empty at the end."""
        return self.position.token if self.position is not None else ""

    async def records(self) -> AsyncGenerator[LetterRecord, None]:
        """Yields records by partition and offset, up to the bounds of a part.

        Transaction markers, records of aborted transactions and unreadable batches are left out.

        Raises:
            KafkaError: the error of a partition's leader.
        """
        while self.position is not None and not self._complete:
            position = self.position
            result = await self._fetch(position)
            end = position.end or result.last_stable_offset
            batches = committed_batches(
                result.records,
                [(one.producer_id, one.first_offset) for one in result.aborted_transactions],
            )
            read = [header.last_offset + 1 for header, _ in headers_of(result.records)]
            for header, at in headers_of(batches):
                data = memoryview(batches)[at : at + header.size]
                async for record in self._decoded(header, data, position.partition):
                    if position.offset <= record.offset < end:
                        self.position = position._replace(offset=record.offset + 1, end=end)
                        yield record
                self.position = self._after(position._replace(offset=header.last_offset + 1, end=end))
                if self._complete:
                    return
            self.position = self._after(position._replace(offset=read[-1] if read else end, end=end))

    @property
    def _complete(self) -> bool:
        return self.scanned >= MOST_RECORDS or self._bytes >= MOST_BYTES or not self._deadline.remaining()

    def _after(self, position: ScanPosition) -> ScanPosition | None:
        """Returns a position, or the begin of the next partition after the end of this one."""
        if position.offset < position.end:
            return position
        following = position.partition + 1
        return ScanPosition(following) if following < self._topic.partitions else None

    async def _fetch(self, position: ScanPosition) -> leader.FetchResponse.Partition:
        """Reads from a position on, or from the log start if the records before it were deleted."""
        result = await self._fetch_from(position.partition, position.offset)
        if ErrorCode(result.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await self._log_start(position.partition)
            if start <= position.offset:  # the log ends before the position
                return leader.FetchResponse.Partition()
            result = await self._fetch_from(position.partition, start)
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message)
        self._bytes += len(result.records)
        return result

    async def _fetch_from(self, partition: int, offset: int) -> leader.FetchResponse.Partition:
        """Returns committed batches of a partition from an offset on, at least one, or an error."""
        part = leader.FetchRequest.Partition(
            topic_id=self._topic.topic_id,
            partition=partition,
            fetch_offset=offset,
            partition_max_bytes=self._fetch_bytes,
        )
        limits = LogFetchLimits(max_bytes=self._fetch_bytes, committed=True)
        (result,) = await fetch_log(self._gateway, [part], limits)
        return result

    async def _log_start(self, partition: int) -> int:
        request = leader.ListOffsetsRequest()
        request.partitions.add(topic_id=self._topic.topic_id, partition=partition, timestamp=_EARLIEST)
        (found,) = (await list_offsets(self._gateway, request, self._deadline)).partitions
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), found.error_message)
        return found.offset

    async def _decoded(
        self, header: Any, data: memoryview, partition: int
    ) -> AsyncGenerator[LetterRecord, None]:
        """Yields the records of a batch, as far as it is readable."""
        try:
            plain = await asyncio.to_thread(plain_batch, header, data) if header.codec else data
            for number, record in enumerate(DefaultRecordBatch(plain), 1):
                self.scanned += 1
                headers = tuple(record.headers)
                yield LetterRecord(
                    partition, record.offset, record.timestamp, record.key, record.value, headers
                )
                if number % _DECODED_AT_ONCE == 0:
                    await self._gateway.turns.next()
        except UNREADABLE:
            return
        except KafkaError as error:
            if error.code not in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE):
                raise


async def record_at(
    gateway: Gateway, topic: Topic, partition: int, offset: int, deadline: Deadline
) -> LetterRecord | None:
    """Returns the record at an offset; None if it was deleted, or is not committed. Raises KafkaError."""
    position = ScanPosition(partition, offset, offset + 1)
    scan = LetterScan(gateway, topic, position, deadline, fetch_bytes=1)
    async with aclosing(scan.records()) as records:
        record = await anext(records, None)
    return record if record is not None and record[:2] == (partition, offset) else None
