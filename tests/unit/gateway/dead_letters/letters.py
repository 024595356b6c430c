"""A leader with the logs of a dead letter topic, and letters for it."""

from __future__ import annotations

from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.records.batches import CODECS, BatchBuilder, Header
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.record_log.core.batch import LEADER_EPOCH, assign, header_of, parse_headers
from sharebroker_server.rpc.errors import wire
from tests.unit.gateway.conftest import Harness
from tests.unit.gateway.fakes import add_topic


def headers_of(offset: int, **values: str) -> list[Header]:
    """The headers of the letter of a record of orders-1; `values` replaces some, "" removes one."""
    found = {
        "topic": "orders",
        "partition": "1",
        "offset": str(offset),
        "group": "g",
        "delivery_count": "5",
        "message": "Offset rejected by client.",
        "disposition": "CLIENT_REJECTED_NACK",
        "reason": f"no account {offset}",
        "timestamp": "1000",
        "copy": "full",
    } | values
    return [
        (f"__dlq.errors.{name.replace('_', '.')}", value.encode()) for name, value in found.items() if value
    ]


ORDERS: Final = Topic("C" * 21 + "A", "orders", 3)
SOURCE: Final = 100
"""The numbers of the logs of `orders` begin here."""


def number(part: Any) -> int:
    """The number of the log of a partition."""
    return int(part.partition) + (SOURCE if part.topic_id == ORDERS.topic_id else 0)


class LetterLogs:
    """The logs of the partitions of `flights`, and of `orders`; records what is sent to them."""

    def __init__(self, harness: Harness) -> None:
        add_topic(harness.gateway.catalog, ORDERS)
        self.batches: dict[int, list[bytes]] = {}
        self.starts: dict[int, int] = {}
        self.fetches = 0
        self.error = ErrorCode.NONE
        self.redriven: list[leader.RedriveRecordsRequest] = []
        self.deleted: list[tuple[int, int]] = []
        self.failing: set[int] = set()
        for name in ("Fetch", "ListOffsets", "RedriveRecords", "DeleteRecords"):
            setattr(harness.leader, name, getattr(self, name))

    def end(self, partition: int) -> int:
        """The end of a log."""
        batches = self.batches.get(partition)
        return header_of(batches[-1]).last_offset + 1 if batches else 0

    def append(
        self,
        partition: int,
        *records: tuple[bytes | None, bytes | None, list[Header]],
        time: int = 1000,
        codec: str = "none",
    ) -> None:
        """Appends a batch of records: key, value, headers."""
        builder = BatchBuilder(CODECS[codec], 1 << 30)
        for key, value, headers in records:
            builder.append(time, key, value, headers)
        data = builder.build()
        (batch,) = assign(data, parse_headers(data, 1 << 30), self.end(partition), LEADER_EPOCH, None)
        self.batches.setdefault(partition, []).append(batch.data)

    def letters(self, partition: int, /, *offsets: int, time: int = 1000, **values: str) -> None:
        """Appends letters of the records at these offsets, each in a batch."""
        for offset in offsets:
            self.append(partition, (b"k", b"value", [*headers_of(offset, **values), ("x", b"1")]), time=time)

    async def Fetch(self, request: leader.FetchRequest, _: Any) -> leader.FetchResponse:
        """Returns batches up to `partition_max_bytes`, at least one."""
        self.fetches += 1
        response = leader.FetchResponse()
        for part in request.partitions:
            found = response.partitions.add(topic_id=part.topic_id, partition=part.partition)
            end, start = self.end(number(part)), self.starts.get(number(part), 0)
            if self.error or not start <= part.fetch_offset <= end:
                found.error_code = wire(self.error or ErrorCode.OFFSET_OUT_OF_RANGE)
                continue
            found.last_stable_offset = end
            for batch in self.batches.get(number(part), ()):
                header = header_of(batch)
                room = part.partition_max_bytes - len(found.records)
                if header.last_offset >= part.fetch_offset and (not found.records or len(batch) <= room):
                    found.records += batch
        return response

    async def ListOffsets(self, request: leader.ListOffsetsRequest, _: Any) -> leader.ListOffsetsResponse:
        """Returns log starts."""
        response = leader.ListOffsetsResponse()
        for part in request.partitions:
            start = self.starts.get(number(part), 0)
            response.partitions.add(topic_id=part.topic_id, partition=part.partition, offset=start)
        return response

    async def RedriveRecords(
        self, request: leader.RedriveRecordsRequest, _: Any
    ) -> leader.RedriveRecordsResponse:
        """Appends letter n at n + 100, except those in `failing`."""
        self.redriven.append(request)
        response = leader.RedriveRecordsResponse()
        for part in request.partitions:
            found = response.partitions.add(
                topic_id=part.topic_id, partition=part.partition, error_code=wire(self.error)
            )
            for record in () if self.error else part.records:
                failed = record.letter_offset in self.failing
                found.results.add(
                    letter_offset=record.letter_offset,
                    error_code=wire(ErrorCode.MESSAGE_TOO_LARGE if failed else ErrorCode.NONE),
                    copy_offset=-1 if request.validate_only else record.letter_offset + 100,
                )
        return response

    async def DeleteRecords(
        self, request: leader.DeleteRecordsRequest, _: Any
    ) -> leader.DeleteRecordsResponse:
        """Moves log starts."""
        response = leader.DeleteRecordsResponse()
        for part in request.partitions:
            self.deleted.append((part.partition, part.offset))
            self.starts[part.partition] = part.offset
            response.partitions.add(
                topic_id=part.topic_id, partition=part.partition, error_code=wire(self.error)
            )
        return response
