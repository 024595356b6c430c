"""Reads stored records by offset, without a group and without locks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from sharebroker.aio.connection import RequestClient
from sharebroker_protocol.address import Address
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import plan_pb2 as pb
from sharebroker_protocol.model import TopicPartition
from sharebroker_protocol.records.batches import stored_records

_BYTES: Final = 1024 * 1024
"""The approximate size of a response."""


@dataclass(frozen=True, slots=True)
class BrowsedRecord:
    """A record of a log."""

    topic: str
    """The name of the topic."""
    partition: int
    """The number of the partition."""
    offset: int
    """The offset in the partition."""
    timestamp: int
    """Milliseconds since the Unix epoch, set by the producer or by the log (`message.timestamp.type`)."""
    key: bytes | None
    """The key; None if the record has none."""
    value: bytes | None
    """The payload; None if the record has none."""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """Headers in order; names may repeat."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Selects the records that fulfil all conditions; None is no condition."""

    key: bytes | None = None
    """The key is equal to this one."""
    header: str | None = None
    """The record has a header of this name."""
    header_value: bytes | None = None
    """A header of the name has this value."""

    def selects(self, record: BrowsedRecord) -> bool:
        """Returns whether the record fulfils the conditions."""
        if self.key is not None and record.key != self.key:
            return False
        if self.header is None:
            return True
        values = [value for name, value in record.headers if name == self.header]
        return bool(values) and self.header_value in (None, *values)


class RecordBrowser(RequestClient):
    """Reads stored records. Other members and groups are not affected. Each method raises KafkaError."""

    def __init__(
        self, address: str | Address, request_timeout: float = 30.0, *, committed: bool = True
    ) -> None:
        """`address` is the gateway's `host:port`; `request_timeout` limits each call, in seconds.

        With `committed`, records of open and aborted transactions are left out.
        """
        super().__init__(address, request_timeout)
        self._committed = committed

    async def get(self, place: TopicPartition, offset: int) -> BrowsedRecord:
        """Returns one record. Raises KafkaError OFFSET_OUT_OF_RANGE, RESOURCE_NOT_FOUND."""
        async for record in self.read(place, offset, offset + 1):
            return record
        raise KafkaError(
            ErrorCode.RESOURCE_NOT_FOUND,
            f"There is no record at offset {offset} of partition {place.partition} of topic {place.topic}.",
        )

    async def read(
        self,
        place: TopicPartition,
        first: int,
        end: int,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> AsyncIterator[BrowsedRecord]:
        """Yields the records from `first` on, below `end`; `on_progress` receives each next offset.

        Raises KafkaError OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE.
        """
        while first < end:
            requested = pb.PlanRange(
                topic=place.topic, partition=place.partition, first_offset=first, last_offset=end - 1
            )
            request = pb.ReadRangeRequest(range=requested, committed=self._committed, max_bytes=_BYTES)
            response = await self._call(self._connection.plans.ReadRange, request)
            for raw in stored_records(response.record_batches, first, end - 1):
                yield BrowsedRecord(*place, raw.offset, raw.timestamp, raw.key, raw.value, tuple(raw.headers))
            if response.next_offset <= first:
                return  # the end of the log, or an open transaction
            first = response.next_offset
            on_progress(first)
