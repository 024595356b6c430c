"""An idempotent producer: a batch is appended once, however often it is sent."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.partitioner import Partitioner
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_spark.client import GatewayClient, Retries
from sharebroker_spark.core.offsets import Partition

BATCH_BYTES: Final = 256 * 1024
_FLUSH_BYTES: Final = 4 * BATCH_BYTES
"""The buffered bytes at which batches are sent, one batch per partition."""
_SEQUENCES: Final = 2**31
_RAISES_EPOCH: Final = 2
_DONE: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

Header = tuple[str, bytes | None]


@dataclass(slots=True)
class _Batch:
    """The records that wait for one partition."""

    builder: DefaultRecordBatchBuilder
    count: int = 0


@dataclass(slots=True)
class _Topic:
    """The number of partitions of a topic, and its partitioner for records without a key."""

    partitions: int
    partitioner: Partitioner = field(default_factory=lambda: Partitioner(BATCH_BYTES, random.randrange))


class SinkTransaction(NamedTuple):
    """The identification of a transaction that is needed to end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TaskPublisher:
    """Publishes the rows of one task attempt; `flush` at the end. `records` and `bytes` count what was sent.

    With a transactional id, all rows form one transaction, to be ended with `end`. A new publisher with the
    same id aborts the transaction of the earlier one and fences it. Raises KafkaError.
    """

    def __init__(self, client: GatewayClient, transactional_id: str = "", timeout_ms: int = 60_000) -> None:
        self._client = client
        self._transactional_id = transactional_id
        request = transactions.InitProducerIdRequest(
            transactional_id=transactional_id or None,
            transaction_timeout_ms=timeout_ms if transactional_id else 0,
        )
        producer = client.call(client.produce.InitProducerId, request)
        self._producer = (producer.producer_id, producer.producer_epoch)
        self._topics: dict[str, _Topic] = {}
        self._sequences: dict[Partition, int] = {}
        self._waiting: dict[Partition, _Batch] = {}
        self._buffered = 0
        self.records = 0
        self.bytes = 0

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> None:
        """Buffers a record; sends the buffered batches once they are large enough."""
        size = len(value or b"") + len(key or b"")
        partition_key = self._choose_partition(topic, key, size, partition)
        batch = self._waiting.get(partition_key)
        if batch is None or not self._append(batch, value, key, headers):
            self._send(partition_key)
            batch = self._waiting[partition_key] = self._begin(partition_key)
            if not self._append(batch, value, key, headers):
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"A record of {size} bytes is too large.")
        self.records += 1
        self.bytes += size
        self._buffered += size
        if self._buffered >= _FLUSH_BYTES:
            self.flush()

    @property
    def transaction(self) -> SinkTransaction | None:
        """The transaction to end; None without records or without a transactional id."""
        is_open = self._transactional_id and self.records
        return SinkTransaction(self._transactional_id, *self._producer) if is_open else None

    def flush(self) -> None:
        """Sends the remaining records; all are durable on return."""
        self._send(*self._waiting)
        self._buffered = 0

    def _choose_partition(self, topic: str, key: bytes | None, size: int, partition: int | None) -> Partition:
        cached = self._topics.get(topic)
        if cached is None:
            cached = self._topics[topic] = _Topic(_partitions(self._client, topic))
        if partition is None:
            return topic, cached.partitioner.partition(key, size, cached.partitions)
        if not 0 <= partition < cached.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Column partition is {partition}; topic {topic!r} has 0 to {cached.partitions - 1}.",
            )
        return topic, partition

    def _begin(self, partition_key: Partition) -> _Batch:
        sequence = self._sequences.get(partition_key, 0)
        transactional = int(bool(self._transactional_id))
        return _Batch(DefaultRecordBatchBuilder(2, 0, transactional, *self._producer, sequence, BATCH_BYTES))

    def _append(
        self, batch: _Batch, value: bytes | None, key: bytes | None, headers: Sequence[Header]
    ) -> bool:
        now_ms = int(time() * 1000)
        if batch.builder.append(batch.count, now_ms, key, value, list(headers)) is None:
            return False
        batch.count += 1
        return True

    def _send(self, *partition_keys: Partition) -> None:
        """Sends the batches of partitions, and retries with the same bytes."""
        batches = {
            partition_key: self._waiting.pop(partition_key)
            for partition_key in partition_keys
            if partition_key in self._waiting
        }
        waiting = {partition_key: bytes(batch.builder.build()) for partition_key, batch in batches.items()}
        retries = Retries(self._client)
        while waiting:
            response = self._client.call(
                self._client.produce.Produce, _request(waiting, self._transactional_id)
            )
            errors = list(_errors(response, waiting))
            for error in errors:
                if not error.retriable:
                    raise error
            if errors:
                retries.wait(errors[0])
        for partition_key, batch in batches.items():
            self._sequences[partition_key] = (
                self._sequences.get(partition_key, 0) + batch.count
            ) % _SEQUENCES


def end(client: GatewayClient, transaction: SinkTransaction, *, committed: bool) -> None:
    """Commits or aborts a transaction; may be repeated. Raises KafkaError."""
    request = transactions.EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        committed=committed,
        transaction_version=_RAISES_EPOCH,
    )
    client.call(client.produce.EndTxn, request)


def _partitions(client: GatewayClient, topic: str) -> int:
    (found,) = client.call(client.admin.Metadata, admin.MetadataRequest(topics=[topic])).topics
    if found.error_code:
        text = f"Topic '{topic}' does not exist." if topic else "A row has no topic."
        raise KafkaError(ErrorCode(found.error_code), text)
    return len(found.partitions)


def _request(waiting: Mapping[Partition, bytes], transactional_id: str) -> pb.ProduceRequest:
    topics: dict[str, list[pb.ProduceRequest.PartitionData]] = {}
    for (topic, partition), records in waiting.items():
        topics.setdefault(topic, []).append(pb.ProduceRequest.PartitionData(index=partition, records=records))
    data: Iterable[pb.ProduceRequest.TopicData] = (
        pb.ProduceRequest.TopicData(name=name, partition_data=parts) for name, parts in topics.items()
    )
    return pb.ProduceRequest(topic_data=data, transactional_id=transactional_id)


def _errors(response: pb.ProduceResponse, waiting: dict[Partition, bytes]) -> Iterator[KafkaError]:
    """Yields the errors of partitions, and removes the partitions that succeeded from `waiting`."""
    for topic in response.responses:
        for part in topic.partition_responses:
            code = ErrorCode(part.error_code)
            if code in _DONE:
                waiting.pop((topic.name, part.index), None)
            else:
                text = part.error_message or code.text
                yield KafkaError(code, f"{topic.name}-{part.index}: {text}")
