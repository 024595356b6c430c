"""A share group with a source topic and a dead letter topic, driven by requests of one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from aiokafka.record.memory_records import MemoryRecords

from sharebroker_protocol.records.batches import CODECS, BatchBuilder
from tests.compat.dead_letters.scenarios import (
    CREATE_TOPICS,
    Change,
    Kind,
    Observed,
    alter,
    changed,
    described,
)
from tests.integration.kafka.logs import list_offset
from tests.integration.kafka.producers import Writer
from tests.support.kafka_client import Batch, KafkaClient, answered, part, runs
from tests.support.kafka_state import Record, read_record
from tests.testkit.waiting import eventually

PRODUCE, FETCH, FIND_COORDINATOR, DELETE_RECORDS, DESCRIBE_OFFSETS = 0, 1, 10, 21, 90
_NO_COORDINATOR: Final = (14, 15, 16)
_NEW_TOPIC: Final = (3, 6)
"""Errors of a topic that was created a moment ago."""
NAME: Final = "errors.deadletterqueue.topic.name"
COPY: Final = "errors.deadletterqueue.copy.record.enable"
ENABLE: Final = "errors.deadletterqueue.group.enable"
POLICY: Final = "errors.deadletterqueue.failure.policy"
GAP, ACCEPT, RELEASE, REJECT = range(4)
TIME: Final = 1_000_000_000_000
"""The timestamp of all records of source topics: in 2001."""

KAFKAS_HEADERS: Final = 6
SECONDS: Final = 30.0
"""The longest wait for a state."""

Source = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


@dataclass
class Queue:
    """The topics and the group of one scenario, whose names begin with its `name`."""

    client: KafkaClient
    name: str
    source: str = ""
    topic_id: str = ""
    member_id: str = field(default_factory=lambda: uuid4().hex[:22])
    member_epoch: int = 0
    session_epoch: int = 0
    acquired: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = self.source or f"{self.name}.source"

    @property
    def group(self) -> str:
        return f"{self.name}.group"

    @property
    def letters(self) -> str:
        return f"dlq.{self.name}"

    async def prepare(
        self,
        records: int | Sequence[Source] = 3,
        configs: Mapping[str, str] = MappingProxyType({}),
        *,
        partitions: int = 1,
        codec: str = "none",
    ) -> None:
        """Creates the source topic with records in each partition, and configures the group.

        The policy of ours, where it exists, is Kafka's.
        """
        self.topic_id = await create(self.client, self.source, partitions)
        if isinstance(records, int):
            records = [(f"k{number}".encode(), f"v{number}".encode()) for number in range(records)]
        for partition in range(partitions if records else 0):
            await self.publish(records, partition, codec)
        await self.configure((NAME, self.letters), ("share.auto.offset.reset", "earliest"))
        await self.configure((POLICY, "archive"))
        for change in configs.items():
            await self.configure(change)

    async def with_letters(
        self, partitions: int = 1, configs: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Creates the dead letter topic."""
        await create(self.client, self.letters, partitions, {ENABLE: "true", **configs})

    async def configure(self, *changes: Change) -> str:
        """Changes configs of the group; returns the outcome once the change is visible."""
        return await configure(self.client, Kind.GROUP, self.group, *changes)

    async def publish(self, records: Iterable[Source], partition: int = 0, codec: str = "none") -> None:
        """Appends one batch of records with a header each to the source topic."""
        builder = BatchBuilder(CODECS[codec], 1 << 24)
        for key, value in records:
            builder.append(TIME, key, value, [("original", b"header")])
        sent = part(PRODUCE, "PartitionProduceData", index=partition, records=builder.build())
        topic = part(PRODUCE, "TopicProduceData", name=self.source, partition_data=[sent])

        async def appended() -> bool:
            response = await self.client.ask(PRODUCE, 9, acks=-1, timeout_ms=5000, topic_data=[topic])
            (written,) = response.responses[0].partition_responses
            assert written.error_code in (0, *_NEW_TOPIC), written.error_code
            return not written.error_code

        await eventually(appended, SECONDS)

    async def transact(self, commit: bool) -> None:
        """Appends a record of a transaction, and its marker."""
        writer = Writer(self.client, self.source, self.topic_id, f"{self.name}.transaction")

        async def begun() -> bool:
            await self.client.ask(FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[writer.name])
            return not await writer.init()

        await eventually(begun, SECONDS)
        assert not (await writer.write(0))[0]
        assert not await writer.end(commit)

        async def ended() -> bool:  # the marker may follow the response
            return bool((await list_offset(self.client, self.source, -1)).offset == 2)

        await eventually(ended, SECONDS)

    # The member

    async def join(self) -> None:
        """Joins the group; returns once partitions are assigned."""
        self.member_epoch = self.session_epoch = 0
        self.member_id = uuid4().hex[:22]
        await eventually(self._is_assigned, SECONDS)

    async def _is_assigned(self) -> bool:
        fields = {} if self.member_epoch else {"subscribed_topic_names": [self.source]}
        beat = await self.client.heartbeat(self.group, self.member_id, self.member_epoch, **fields)
        if beat.error_code in _NO_COORDINATOR:  # Kafka creates its topic when a coordinator is searched
            await self.client.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[self.group])
            return False
        assert not beat.error_code, (beat.error_code, beat.error_message)
        self.member_epoch = beat.member_epoch
        return beat.assignment is not None and bool(beat.assignment.topic_partitions)

    async def acquire(self, number: int, partitions: int = 1) -> None:
        """Joins if necessary, and acquires this number of records."""
        if not self.member_epoch:
            await self.join()
        self.acquired = {}
        async with asyncio.timeout(SECONDS):
            while number > 0:
                wanted = {self.topic_id: range(partitions)} if not self.session_epoch else {}
                response = await self.client.share_fetch(
                    self.group, self.member_id, self.session_epoch, wanted
                )
                assert not response.error_code, response.error_code
                self.session_epoch += 1
                for (_, partition), data in answered(response).items():
                    found = runs(data)
                    self.acquired.setdefault(partition, []).extend(found)
                    number -= sum(last - first + 1 for first, last, _ in found)

    async def acknowledge(self, *batches: Batch, partition: int = 0) -> int:
        """Acknowledges records; returns the error code."""
        acks = {(self.topic_id, partition): batches}
        response = await self.client.share_acknowledge(self.group, self.member_id, self.session_epoch, acks)
        assert not response.error_code, response.error_code
        self.session_epoch += 1
        return int(answered(response)[self.topic_id, partition].error_code)

    async def leave(self) -> None:
        """Closes the share session and leaves the group."""
        await self.client.share_acknowledge(self.group, self.member_id, -1)
        await self.client.heartbeat(self.group, self.member_id, -1)
        self.member_epoch = 0

    async def fail(self, number: int, *batches: Batch) -> int:
        """Acquires records and acknowledges them; returns the error code."""
        await self.acquire(number)
        return await self.acknowledge(*batches)

    # What is seen

    async def lag(self) -> int:
        """Returns the lag of the group, -1 if it is unknown."""
        request = part(
            DESCRIBE_OFFSETS, "DescribeShareGroupOffsetsRequestGroup", group_id=self.group, topics=None
        )
        response = await self.client.ask(DESCRIBE_OFFSETS, 1, groups=[request])
        lags = [row.lag for topic in response.groups[0].topics for row in topic.partitions]
        return -1 if not lags or -1 in lags else sum(lags)

    async def until_lag(self, expected: int = 0) -> str:
        """Waits for a lag; returns what is seen in the end."""
        lag = -1

        async def reached() -> bool:
            nonlocal lag
            lag = await self.lag()
            return lag == expected

        with suppress(AssertionError):
            await eventually(reached, SECONDS)
        return f"lag {lag}"

    async def written(self, number: int, partitions: int = 1) -> Observed:
        """Waits for this number of letters and no lag; returns the letters by source, and the lag."""
        found: list[tuple[int, Any]] = []

        async def complete() -> bool:
            found[:] = [
                (partition, record)
                for partition in range(partitions)
                for record in await fetch(self.client, self.letters, partition)
            ]
            return len(found) >= number

        with suppress(AssertionError):
            await eventually(complete, SECONDS)
        lines = sorted(_line(partition, record) for partition, record in found)
        return [*lines, await self.until_lag()]

    async def ends(self, letters: int = 0) -> Observed:
        """Waits until the group has no lag; returns the lag, and the number of letters if it is another."""
        lag = await self.until_lag()
        found = await fetch(self.client, self.letters, 0)
        return [lag, f"{len(found)} letters" if len(found) != letters else f"{letters} letters, as expected"]

    async def stored_states(self) -> list[tuple[list[tuple[int, ...]], int]]:
        """Returns the batches and complete counts of the group's records in the state topic."""
        found: list[Record] = []
        for partition in range(50):
            records = await fetch(self.client, "__share_group_state", partition)
            found += (read_record(one.offset, one.timestamp, one.key, one.value) for one in records)
        values = [one.value for one in found if one.key[0] == self.group and one.value is not None]
        return [(value["StateBatches"], value["DeliveryCompleteCount"]) for value in values]


async def configure(client: KafkaClient, kind: Kind, name: str, *changes: Change) -> str:
    """Changes configs of a resource; returns the outcome once the change is visible."""
    keys = [change[0] for change in changes]
    before = await described(client, kind, name, *keys)
    outcome = await alter(client, kind, name, *changes)
    if outcome == "0":
        await changed(client, kind, name, keys, before)
    return outcome


async def create(
    client: KafkaClient, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
) -> str:
    """Creates a topic; returns its id."""
    made = part(
        CREATE_TOPICS,
        "CreatableTopic",
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            part(CREATE_TOPICS, "CreatableTopicConfig", name=key, value=value)
            for key, value in (configs or {}).items()
        ],
    )
    response = await client.ask(CREATE_TOPICS, 7, topics=[made], timeout_ms=10_000)
    (result,) = response.topics
    assert not result.error_code, result.error_message
    return str(result.topic_id)


async def delete_records(client: KafkaClient, topic: str, offset: int) -> None:
    """Moves the log start of partition 0."""
    asked = part(DELETE_RECORDS, "DeleteRecordsPartition", partition_index=0, offset=offset)
    wanted = part(DELETE_RECORDS, "DeleteRecordsTopic", name=topic, partitions=[asked])
    response = await client.ask(DELETE_RECORDS, 2, topics=[wanted], timeout_ms=10_000)
    assert not response.topics[0].partitions[0].error_code


async def fetch(client: KafkaClient, topic: str, partition: int) -> list[Any]:
    """Returns the records of a partition; none if it does not exist."""
    found: list[Any] = []
    offset = 0
    while True:
        asked = part(
            FETCH, "FetchPartition", partition=partition, fetch_offset=offset, partition_max_bytes=1 << 22
        )
        response = await client.ask(
            FETCH,
            12,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 24,
            session_epoch=-1,
            topics=[part(FETCH, "FetchTopic", topic=topic, partitions=[asked])],
        )
        (data,) = response.responses[0].partitions
        batches = MemoryRecords(bytes(data.records or b""))
        records = []
        while (batch := batches.next_batch()) is not None:
            if not batch.is_control_batch:
                records += [record for record in batch if record.offset >= offset]
            offset = max(offset, batch.next_offset)
        if not records:
            return found
        found += records


def _line(partition: int, record: Any) -> str:
    """Returns a letter as text: its partition, key, value and Kafka's headers."""
    headers = [
        f"{name.removeprefix('__dlq.errors.')}={value.decode()}"
        for name, value in record.headers[:KAFKAS_HEADERS]
    ]
    kind = f"type {record.timestamp_type} {'old' if record.timestamp == TIME else 'new'}"
    return f"{' '.join(headers)} -> {partition} {record.key!r} {record.value!r:.40} {kind}"
