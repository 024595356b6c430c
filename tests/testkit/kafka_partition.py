"""A partition of a Kafka topic on two brokers: appends, elections that lose records, and its responses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.kafka_client.cluster import EARLIEST, LATEST, NEWEST
from sharebroker_server.kafka_client.core.apis import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
)
from sharebroker_server.kafka_wire.messages import (
    FetchResponse,
    ListOffsetsResponse,
    MetadataResponse,
    OffsetForLeaderEpochResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.record_log.core.batch import (
    StoredBatch,
    assign,
    first_since,
    header_of,
    parse_headers,
)
from sharebroker_server.record_log.core.producers import Marker
from sharebroker_server.record_log.core.transactions import commits, marker_batch

_LARGEST: Final = 1 << 20


@dataclass
class Replica:
    """The log of the partition on one broker."""

    batches: list[StoredBatch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    """Leader epochs and the offsets where they begin."""
    start: int = 0

    @property
    def epoch(self) -> int:
        return self.epochs[-1][0]

    @property
    def end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else max(self.start, self.epochs[-1][1])

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to one, and its end."""
        known = [each for each in self.epochs if each[0] <= epoch]
        if epoch > self.epochs[-1][0]:
            return -1, -1
        if not known:
            return epoch, self.epochs[0][1]
        later = [begin for number, begin in self.epochs if number > epoch]
        return known[-1][0], later[0] if later else self.end

    def open_transactions(self) -> dict[int, int]:
        """Producers with an open transaction, and its first offset."""
        opened: dict[int, int] = {}
        for each in self.batches:
            header = header_of(each.data)
            if each.control:
                opened.pop(header.producer_id, None)
            elif header.transactional:
                opened.setdefault(header.producer_id, each.base_offset)
        return opened

    @property
    def stable(self) -> int:
        return min(self.open_transactions().values(), default=self.end)

    def aborted(self) -> list[tuple[int, int]]:
        """Producer id and first offset of each aborted transaction."""
        found: list[tuple[int, int]] = []
        opened: dict[int, int] = {}
        for each in self.batches:
            header = header_of(each.data)
            if not each.control and header.transactional:
                opened.setdefault(header.producer_id, each.base_offset)
            elif each.control:
                first = opened.pop(header.producer_id, None)
                if first is not None and not commits(each):
                    found.append((header.producer_id, first))
        return found


class KafkaPartition:
    """One partition of a topic, and what its two brokers answer about it.

    `errors` are returned for the partition, one a fetch. A broker in `deposed` still leads with its former
    epoch and records, as far as it knows.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.leader = 0
        self.replicas = [Replica(), Replica()]
        self.deposed: set[int] = set()
        self.errors: list[ErrorCode] = []
        self.fetches: list[Any] = []
        self.topic_exists = True
        self._changed = asyncio.Event()

    def address(self, node: int) -> tuple[str, int]:
        """The host and port of a broker, as Metadata has them."""
        return f"kafka-{node}", 9092

    @property
    def log(self) -> Replica:
        return self.replicas[self.leader]

    @property
    def epoch(self) -> int:
        return self.log.epoch

    def append(self, data: bytes, node: int | None = None) -> None:
        """Appends the batches of a producer, at the leader by default."""
        log = self.log if node is None else self.replicas[node]
        self._store(log, assign(data, parse_headers(data, _LARGEST), log.end, log.epoch))

    def end_transaction(self, commit: bool, producer_id: int = 7) -> None:
        log = self.log
        self._store(log, [marker_batch(Marker(producer_id, 0, 0, commit), log.end, log.epoch, 1000)])

    def delete_before(self, offset: int) -> None:
        self.log.start = offset
        self.log.batches = [each for each in self.log.batches if each.last_offset >= offset]
        self._notify()

    def compact(self, *base_offsets: int) -> None:
        """Removes batches."""
        self.log.batches = [each for each in self.log.batches if each.base_offset not in base_offsets]

    def elect(self, node: int, keeps: int | None = None, *, deposed: bool = False) -> None:
        """Makes a broker the leader, with the records of the former one before the offset `keeps`.

        `deposed`: the former one has not noticed it.
        """
        former, epoch = self.log, self.epoch + 1
        self.deposed = {self.leader} - {node} if deposed else set()
        end = former.end if keeps is None else keeps
        batches = [each for each in former.batches if each.last_offset < end]
        epochs = [each for each in former.epochs if each[1] < end or each == (0, 0)]
        self.leader = node
        self.replicas[node] = Replica(batches, [*epochs, (epoch, end)], former.start)
        self._notify()

    def recreate(self) -> None:
        """Deletes the topic and creates it again; it has no id."""
        self.replicas = [Replica(), Replica()]
        self._notify()

    def _store(self, log: Replica, batches: list[StoredBatch]) -> None:
        log.batches += batches
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def respond(self, node: int, key: int, message: Any) -> Message | None:
        """Returns the response of a broker to a request, None if it does not implement the API."""
        if key == METADATA.key:
            return self._metadata(node)
        if key == LIST_OFFSETS.key:
            return self._list_offsets(node, message)
        if key == OFFSET_FOR_LEADER_EPOCH.key:
            return self._epoch_end(node, message)
        return await self._fetch(node, message) if key == FETCH.key else None

    def _leader(self, node: int) -> int:
        """Returns the leader in the view of a broker."""
        return node if node in self.deposed else self.leader

    def _error(self, node: int, epoch: int) -> int:
        known = self.replicas[self._leader(node)].epoch
        if not self.topic_exists:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if node != self._leader(node):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if 0 <= epoch != known:
            return ErrorCode.FENCED_LEADER_EPOCH if epoch < known else ErrorCode.UNKNOWN_LEADER_EPOCH
        return 0

    def _metadata(self, node: int) -> Message:
        leader = self._leader(node)
        part = MetadataResponse.MetadataResponsePartition(
            partition_index=0, leader_id=leader, leader_epoch=self.replicas[leader].epoch
        )
        topic = MetadataResponse.MetadataResponseTopic(
            name=self.topic,
            error_code=0 if self.topic_exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            partitions=[part] if self.topic_exists else [],
        )
        return MetadataResponse(
            cluster_id="c",
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=n, host=host, port=port)
                for n, (host, port) in enumerate(map(self.address, range(len(self.replicas))))
            ],
            topics=[topic],
        )

    def _list_offsets(self, node: int, message: Any) -> Message:
        ((asked,),) = (topic.partitions for topic in message.topics)
        log, at = self.replicas[node], asked.timestamp
        offset, time = -1, -1
        if at == EARLIEST:
            offset = log.start
        elif at == LATEST:
            offset = log.stable if message.isolation_level else log.end
        else:
            wanted = max((each.max_timestamp for each in log.batches), default=0) if at == NEWEST else at
            for each in log.batches:
                if not each.control and each.max_timestamp >= wanted:
                    found = first_since(each, log.start, wanted)
                    assert found is not None
                    offset, time = found
                    break
        part = ListOffsetsResponse.ListOffsetsPartitionResponse(
            partition_index=0,
            error_code=self._error(node, asked.current_leader_epoch),
            offset=offset,
            timestamp=time,
            leader_epoch=log.epoch,
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsResponse.ListOffsetsTopicResponse(name=self.topic, partitions=[part])]
        )

    def _epoch_end(self, node: int, message: Any) -> Message:
        ((asked,),) = (topic.partitions for topic in message.topics)
        epoch, end = self.replicas[node].epoch_end(asked.leader_epoch)
        part = OffsetForLeaderEpochResponse.EpochEndOffset(
            partition=0,
            error_code=self._error(node, asked.current_leader_epoch),
            leader_epoch=epoch,
            end_offset=end,
        )
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=self.topic, partitions=[part])
            ]
        )

    async def _fetch(self, node: int, message: Any) -> Message:
        """Answers without sessions: each request has all partitions."""
        self.fetches.append(message)
        ((asked,),) = (topic.partitions for topic in message.topics)
        part = self._part(node, message, asked)
        if not part.records and not part.error_code and message.max_wait_ms:
            changed = self._changed
            try:
                async with asyncio.timeout(message.max_wait_ms / 1000):
                    await changed.wait()
            except TimeoutError:
                pass
            part = self._part(node, message, asked)
        return FetchResponse(
            responses=[FetchResponse.FetchableTopicResponse(topic=self.topic, partitions=[part])]
        )

    def _part(self, node: int, message: Any, asked: Any) -> FetchResponse.PartitionData:
        log, offset = self.replicas[node], asked.fetch_offset
        error = self._error(node, asked.current_leader_epoch)
        if not error and self.errors:
            error = self.errors.pop(0)
        if not error and not log.start <= offset <= log.end:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        end = log.stable if message.isolation_level else log.end
        records = b"".join(each.data for each in log.batches if offset <= each.last_offset < end)
        if len(records) > asked.partition_max_bytes:
            first = next(each for each in log.batches if each.last_offset >= offset)
            records = records[: max(asked.partition_max_bytes, len(first.data))]
        return FetchResponse.PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=log.end,
            last_stable_offset=log.stable,
            log_start_offset=log.start,
            aborted_transactions=[
                FetchResponse.AbortedTransaction(producer_id=producer, first_offset=first)
                for producer, first in log.aborted()
            ]
            if message.isolation_level
            else None,
            records=b"" if error else records,
        )
