"""Publishing by an idempotent producer: a batch is appended once, however often it is sent."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sharebroker_protocol.errors import DESCRIPTIONS, ErrorCode, KafkaError
from sharebroker_protocol.gateway.v1 import admin_pb2 as admin
from sharebroker_protocol.gateway.v1 import produce_pb2 as pb
from sharebroker_protocol.records.partitioner import Partitioner
from sharebroker_protocol.transaction_coordinator.v1 import transaction_coordinator_pb2 as transactions
from sharebroker_spark.client import Client, Tries
from sharebroker_spark.core.offsets import Partition

BATCH_BYTES: Final = 256 * 1024
_SENT_AT: Final = 4 * BATCH_BYTES
"""So much is gathered before batches are sent, each partition's in a batch of its own."""
_SEQUENCES: Final = 2**31
_RAISES_EPOCH: Final = 2
_DONE: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)

Header = tuple[str, bytes | None]


@dataclass(slots=True)
class _Batch:
    """What waits for one partition."""

    builder: DefaultRecordBatchBuilder
    count: int = 0


@dataclass(slots=True)
class _Topic:
    """A topic's partitions, and where records without a key go."""

    partitions: int
    partitioner: Partitioner = field(default_factory=lambda: Partitioner(BATCH_BYTES, random.randrange))


class Transaction(NamedTuple):
    """What is needed to end a transaction, from wherever."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Publisher:
    """Publishes rows of one task attempt; `flush` at the end. `records` and `bytes` tell how much, so far.

    With a transactional id all of it is one transaction, which somebody has to `end`; that of an earlier
    publisher of this id is aborted, and whatever that one still sends refused. Raises KafkaError.
    """

    def __init__(self, client: Client, transactional_id: str = "", timeout_ms: int = 60_000) -> None:
        self._client = client
        self._transactional_id = transactional_id
        request = transactions.InitProducerIdRequest(
            transactional_id=transactional_id or None,
            transaction_timeout_ms=timeout_ms if transactional_id else 0,
        )
        made = client.call(client.produce.InitProducerId, request)
        self._producer = (made.producer_id, made.producer_epoch)
        self._topics: dict[str, _Topic] = {}
        self._sequences: dict[Partition, int] = {}
        self._waiting: dict[Partition, _Batch] = {}
        self._gathered = 0
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
        """Take a record; sends what has gathered when that is much."""
        size = len(value or b"") + len(key or b"")
        where = self._place(topic, key, size, partition)
        batch = self._waiting.get(where)
        if batch is None or not self._append(batch, value, key, headers):
            self._send(where)
            batch = self._waiting[where] = self._begin(where)
            if not self._append(batch, value, key, headers):
                raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"A record of {size} bytes is too large.")
        self.records += 1
        self.bytes += size
        self._gathered += size
        if self._gathered >= _SENT_AT:
            self.flush()

    @property
    def transaction(self) -> Transaction | None:
        """What is to be ended; None: nothing, for want of records or of a transactional id."""
        begun = self._transactional_id and self.records
        return Transaction(self._transactional_id, *self._producer) if begun else None

    def flush(self) -> None:
        """Send what is left; all is durable then."""
        self._send(*self._waiting)
        self._gathered = 0

    def _place(self, topic: str, key: bytes | None, size: int, partition: int | None) -> Partition:
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = _Topic(_partitions(self._client, topic))
        if partition is None:
            return topic, known.partitioner.partition(key, size, known.partitions)
        if not 0 <= partition < known.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Column partition is {partition}; topic {topic!r} has 0 to {known.partitions - 1}.",
            )
        return topic, partition

    def _begin(self, where: Partition) -> _Batch:
        sequence = self._sequences.get(where, 0)
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

    def _send(self, *places: Partition) -> None:
        """Send the batches of partitions, again and again where that may help; the same bytes each time."""
        batches = {where: self._waiting.pop(where) for where in places if where in self._waiting}
        waiting = {where: bytes(batch.builder.build()) for where, batch in batches.items()}
        tries = Tries(self._client)
        while waiting:
            answer = self._client.call(
                self._client.produce.Produce, _request(waiting, self._transactional_id)
            )
            refusals = list(_refusals(answer, waiting))
            for error in refusals:
                if not error.retriable:
                    raise error
            if refusals:
                tries.again(refusals[0])
        for where, batch in batches.items():
            self._sequences[where] = (self._sequences.get(where, 0) + batch.count) % _SEQUENCES


def end(client: Client, transaction: Transaction, *, committed: bool) -> None:
    """Commit a transaction, or abort it; may be repeated. Raises KafkaError."""
    request = transactions.EndTxnRequest(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        committed=committed,
        transaction_version=_RAISES_EPOCH,
    )
    client.call(client.produce.EndTxn, request)


def _partitions(client: Client, topic: str) -> int:
    (found,) = client.call(client.admin.Metadata, admin.MetadataRequest(topics=[topic])).topics
    if found.error_code:
        text = f"There is no topic '{topic}'." if topic else "A row has no topic."
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


def _refusals(answer: pb.ProduceResponse, waiting: dict[Partition, bytes]) -> Iterator[KafkaError]:
    """Why partitions did not take their batch; those that did are taken out of what waits."""
    for topic in answer.responses:
        for part in topic.partition_responses:
            code = ErrorCode(part.error_code)
            if code in _DONE:
                waiting.pop((topic.name, part.index), None)
            else:
                text = part.error_message or DESCRIPTIONS[code].text
                yield KafkaError(code, f"{topic.name}-{part.index}: {text}")
