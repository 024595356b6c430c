"""A producer of raw requests, idempotent or with transactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sharebroker_protocol.errors import ErrorCode
from tests.integration.kafka.harness import Harness
from tests.integration.kafka.logs import fetch_one
from tests.support.client import unique
from tests.support.kafka_client import KafkaClient, part
from tests.unit.record_log.batches import batch

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 0, 22, 24, 26
EXPLICIT, IMPLICIT = 11, 12
"""Versions of Produce: partitions are added to the transaction by a request before it, or by Produce
itself.
"""


@dataclass
class Writer:
    """A producer on one connection; `name` is None for one without transactions."""

    kafka: KafkaClient
    topic: str
    topic_id: str
    name: str | None = None
    producer: tuple[int, int] = (-1, -1)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)

    async def init(self, version: int = 5, **fields: Any) -> ErrorCode:
        fields = {"transactional_id": self.name, "transaction_timeout_ms": 60_000, **fields}
        response = await self.kafka.ask(INIT_PRODUCER_ID, version, **fields)
        self.producer = (response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    async def write(self, sequence: int, version: int = IMPLICIT, **other: Any) -> tuple[ErrorCode, int]:
        """Writes one record; returns the error and the offset."""
        producer = other.get("producer", self.producer)
        data = batch(1, producer=(*producer, sequence), transactional=self.name is not None)
        return await self.send(data, version)

    async def send(self, data: bytes, version: int = IMPLICIT) -> tuple[ErrorCode, int]:
        """Sends bytes unchanged."""
        asked = part(PRODUCE, "PartitionProduceData", index=0, records=data)
        named = {"topic_id": self.topic_id} if version > IMPLICIT else {"name": self.topic}
        topics = [part(PRODUCE, "TopicProduceData", partition_data=[asked], **named)]
        response = await self.kafka.ask(
            PRODUCE, version, transactional_id=self.name, acks=-1, timeout_ms=5000, topic_data=topics
        )
        (written,) = response.responses[0].partition_responses
        return ErrorCode(written.error_code), written.base_offset

    async def add(self, version: int = 3) -> ErrorCode:
        topics = [part(ADD_PARTITIONS, "AddPartitionsToTxnTopic", name=self.topic, partitions=[0])]
        response = await self.kafka.ask(
            ADD_PARTITIONS,
            version,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=topics,
        )
        (added,) = response.results_by_topic_v3_and_below[0].results_by_partition
        return ErrorCode(added.partition_error_code)

    async def end(self, commit: bool, version: int = 5) -> ErrorCode:
        response = await self.kafka.ask(
            END_TXN,
            version,
            transactional_id=self.name,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        if version >= 5 and not response.error_code:
            self.producer = (response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    async def stable(self) -> tuple[int, int]:
        """Returns last stable offset and high watermark."""
        response = await fetch_one(self.kafka, self.topic, self.topic_id, 0)
        return response.last_stable_offset, response.high_watermark


async def writer(harness: Harness, kafka: KafkaClient, *, transactional: bool = True) -> Writer:
    topic, topic_id = await harness.client.create(1)
    made = Writer(kafka, topic, topic_id, unique("writer") if transactional else None)
    assert await made.init() is ErrorCode.NONE
    return made
