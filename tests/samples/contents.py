"""The contents of the sample data: creates them through public APIs, and describes them in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sharebroker.acls import Acl
from sharebroker.aio.admin import Admin
from sharebroker_protocol.model import TopicPartition as Partition
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_server.config.broker import STANDARD_AUTHORIZER
from tests.support.client import REJECT, RELEASE, TIMEOUT, Client
from tests.support.client import connected as connected_grpc
from tests.support.kafka_client import KafkaClient, answered, part, runs
from tests.support.kafka_client import connected as connected_kafka
from tests.testkit.waiting import eventually

PROPERTIES: Final = (
    "group.share.min.record.lock.duration.ms=1000",
    f"authorizer.class.name={STANDARD_AUTHORIZER}",
    "super.users=User:ANONYMOUS",
)
"""Properties of the broker that writes a sample, and of one that reads it."""

ORDERS, TRANSFERS, DELETED = "orders", "transfers", "deleted"
WORKERS, AUDITORS, EMPTY, STABLE, RESET, DEAD = "workers", "auditors", "empty", "stable", "reset", "dead"
READERS: Final = "readers"
TRANSACTIONS: Final = ("committed", "aborted", "ongoing")
ORDERS_IN_PARTITION_0: Final = 20
_QUIET: Final = {"log_level": 0}
"""Some clients outlive the broker."""
_GAP, _ACCEPT, _REJECT = 0, 1, 3
_DESCRIBE_PRODUCERS, _DESCRIBE_TRANSACTIONS = 61, 65
_SHARE_GROUPS: Final = (WORKERS, AUDITORS, EMPTY, STABLE, RESET, DEAD)


@dataclass(frozen=True)
class Clients:
    """Clients of one broker; `kafka` is the address of its Kafka listener."""

    grpc: Client
    admin: Admin
    requests: KafkaClient
    kafka: str


@asynccontextmanager
async def clients(grpc: str, kafka: str) -> AsyncIterator[Clients]:
    """Connects to both listeners of a broker."""
    async with connected_grpc(grpc) as client, Admin(grpc) as admin, connected_kafka(kafka) as requests:
        yield Clients(client, admin, requests, kafka)


# Creation


@asynccontextmanager
async def created(at: Clients) -> AsyncIterator[None]:
    """Creates all contents; a transaction is ongoing until the end of the context."""
    await _create_topics(at)
    await _create_access(at)
    with _ongoing_transaction(at.kafka) as ongoing:
        await asyncio.to_thread(_end_transactions, at.kafka)
        await asyncio.to_thread(ongoing)
        await _read_orders(at)
        await _read_transfers(at)
        await _create_groups(at)
        yield


async def _create_topics(at: Clients) -> None:
    await at.admin.create_topic(ORDERS, 1, {"retention.ms": "-1", "max.message.bytes": "500000"})
    await at.admin.create_partitions(ORDERS, 2)
    await at.admin.create_topic(TRANSFERS, 1, {"retention.ms": "-1"})
    await at.admin.create_topic(DELETED, 1)
    for number in range(ORDERS_IN_PARTITION_0):
        await at.grpc.publish(ORDERS, [f"order {number}"], partition=0)
    await asyncio.to_thread(_produce_compressed, at.kafka)
    await at.grpc.publish(DELETED, ["lost"])
    await at.admin.delete_records({Partition(ORDERS, 1): 2})


def _produce_compressed(kafka: str) -> None:
    """Produces one compressed batch of an idempotent producer, with keys and headers, into partition 1."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka, "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 50}
    )
    for number in range(10):
        producer.produce(
            ORDERS, f"packed {number}".encode() * 20, f"key {number}", 1, headers={"number": str(number)}
        )
    assert producer.flush(TIMEOUT) == 0


async def _create_access(at: Clients) -> None:
    await at.admin.set_password("alice", "secret of the sample")
    await at.admin.create_acls(
        [
            Acl("User:alice", "read", "topic", ORDERS, "prefixed"),
            Acl("User:bob", "write", "topic", ORDERS, permission_type="deny"),
        ]
    )
    await at.admin.alter_quotas({"user": "alice"}, {"producer_byte_rate": 1_000_000.0})
    await at.admin.alter_quotas({"client-id": None}, {"consumer_byte_rate": 2_000_000.0})
    await at.grpc.configure_broker("group.share.max.size", "321")


@contextmanager
def _ongoing_transaction(kafka: str) -> Iterator[Any]:
    """Provides a function that begins a transaction, writes a record and an offset, and does not end it."""
    producer = _transactional(kafka, "ongoing")
    consumer = _consumer(kafka, READERS)

    def begin() -> None:
        producer.begin_transaction()
        producer.produce(TRANSFERS, b"ongoing", partition=0)
        assert producer.flush(TIMEOUT) == 0
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(TRANSFERS, 0, 1)], metadata, TIMEOUT)

    yield begin
    consumer.close()


def _end_transactions(kafka: str) -> None:
    """Commits one transaction and aborts one, and commits offsets of a consumer group."""
    for name in ("committed", "aborted"):
        producer = _transactional(kafka, name)
        producer.begin_transaction()
        for number in range(2):
            producer.produce(TRANSFERS, f"{name} {number}".encode(), partition=0)
        if name == "committed":
            producer.commit_transaction(TIMEOUT)
        else:
            assert producer.flush(TIMEOUT) == 0
            producer.abort_transaction(TIMEOUT)
    consumer = _consumer(kafka, READERS)
    offsets = [TopicPartition(ORDERS, 0, 7, "a note"), TopicPartition(ORDERS, 1, 9)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def _transactional(kafka: str, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka, "transactional.id": name, "transaction.timeout.ms": 900_000, **_QUIET}
    )
    producer.init_transactions(TIMEOUT)
    return producer


def _consumer(kafka: str, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {"bootstrap.servers": kafka, "group.id": group, "enable.auto.commit": False, **_QUIET}
    )


async def _configure(at: Clients, group: str, **configs: str) -> None:
    values = {name.replace("_", "."): value for name, value in configs.items()}
    await at.admin.alter_group_configs(group, {"share.auto.offset.reset": "earliest"} | values)


async def _read_orders(at: Clients) -> None:
    """Leaves records accepted, rejected, released, expired and never delivered, in one partition."""
    topic_id = (await at.admin.describe_topic(ORDERS)).topic_id
    await _configure(at, WORKERS, share_record_lock_duration_ms="1000")
    member = "worker"
    got = await acquire_partition_0(at, WORKERS, 12, member)
    await at.grpc.acknowledge(WORKERS, member, [got[0], got[1], got[2], got[6]])
    await at.grpc.acknowledge(WORKERS, member, [got[3]], REJECT)
    await at.grpc.acknowledge(WORKERS, member, [got[4]], RELEASE)

    async def expired() -> bool:
        folded = (await at.grpc.inspect(WORKERS, topic_id)).folded
        counts = {(batch.delivery_state, batch.delivery_count) for batch in folded.state_batches}
        return bool(folded.state_batches) and folded.state_batches[-1].last_offset == 11 and (0, 1) in counts

    await eventually(expired, TIMEOUT)


async def acquire_partition_0(at: Clients, group: str, records: int, member: str) -> list[Any]:
    """Acquires records of partition 0; those of partition 1 are accepted."""
    got: list[Any] = []
    while len(got) < records:
        response = await at.grpc.acquire(group, ORDERS, records - len(got), member=member)
        other = [record for record in response.records if record.partition]
        if other:
            await at.grpc.acknowledge(group, member, other)
        got += [record for record in response.records if not record.partition]
    return got


async def _read_transfers(at: Clients) -> None:
    """Acknowledges records and the control record between them, which is a gap, as Kafka's clients do."""
    await _configure(at, AUDITORS, share_isolation_level="read_uncommitted")
    topic_id = (await at.admin.describe_topic(TRANSFERS)).topic_id
    await at.grpc.heartbeat(AUDITORS, "auditor", 0, [TRANSFERS])
    epoch, last = 0, -1
    while last < 5:
        response = await at.requests.share_fetch(AUDITORS, "auditor", epoch, {topic_id: [0]})
        acquired = runs(answered(response)[topic_id, 0]) if response.responses else []
        epoch, last = epoch + 1, max([last, *(end for _, end, _ in acquired)])
    # 0, 1: committed, 2: its marker, 3, 4: aborted, 5: its marker.
    kinds = [(0, 0, [_ACCEPT]), (2, 2, [_GAP]), (3, 4, [_REJECT])]
    response = await at.requests.share_acknowledge(AUDITORS, "auditor", epoch, {(topic_id, 0): kinds})
    assert answered(response)[topic_id, 0].error_code == 0
    await at.requests.share_acknowledge(AUDITORS, "auditor", -1)
    await at.grpc.heartbeat(AUDITORS, "auditor", -1)


async def _create_groups(at: Clients) -> None:
    for group in (EMPTY, RESET, DEAD):
        await _configure(at, group)
        await at.grpc.heartbeat(group, f"former {group}", 0, [ORDERS])
        await acquire_partition_0(at, group, 1, f"former {group}")
        await at.grpc.heartbeat(group, f"former {group}", -1)
    await at.admin.alter_group_offsets(RESET, {Partition(ORDERS, 0): 15})
    await at.admin.delete_group(DEAD)
    await _configure(at, STABLE, share_session_timeout_ms="60000")
    await at.grpc.heartbeat(STABLE, "member", 0, [ORDERS, DELETED])
    await at.admin.delete_topic(DELETED)


# Description


async def described(at: Clients) -> dict[str, Any]:
    """Returns the contents as plain values, without what changes with each start."""
    topics = await at.admin.list_topics()
    groups = sorted(await at.admin.list_groups(), key=lambda group: group.group_id)
    return {
        "topics": [asdict(topic) for topic in topics],
        "records": {
            isolation: await asyncio.to_thread(_records, at.kafka, isolation)
            for isolation in ("read_uncommitted", "read_committed")
        },
        "share groups": {group.group_id: await _group(at, group.group_id) for group in groups},
        "share state": {
            f"{group} {topic.name} {index}": await _state(at, group, topic.topic_id, index)
            for group in _SHARE_GROUPS
            for topic in topics
            for index in range(topic.partitions)
        },
        "consumer groups": {READERS: await asyncio.to_thread(_committed, at.kafka)},
        "transactions": await _transactions(at),
        "producers": await _producers(at),
        "users": [asdict(user) for user in await at.admin.list_users()],
        "acls": sorted(([asdict(acl) for acl in await at.admin.list_acls()]), key=str),
        "quotas": [asdict(quota) for quota in await at.admin.list_quotas()],
    }


def _records(kafka: str, isolation: str) -> list[list[Any]]:
    """Returns topic, partition, offset, key, value and headers of all records."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "none",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    partitions = [(ORDERS, 0), (ORDERS, 1), (TRANSFERS, 0)]
    found, ends = [], 0
    try:
        consumer.assign(
            [TopicPartition(topic, index, confluent_kafka.OFFSET_BEGINNING) for topic, index in partitions]
        )
        while ends < len(partitions):
            message = consumer.poll(TIMEOUT)
            assert message is not None
            if (error := message.error()) is None:
                found.append(_record(message))
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                ends += 1
    finally:
        consumer.close()
    return sorted(found, key=lambda record: record[:3])


def _record(message: Any) -> list[Any]:
    headers = {name: value.decode() for name, value in message.headers() or ()}
    key = message.key()
    position = [message.topic(), message.partition(), message.offset(), message.timestamp()[1]]
    return [*position, key and key.decode(), (message.value() or b"").decode(), headers]


async def _group(at: Clients, group: str) -> dict[str, Any]:
    description = await at.admin.describe_group(group)
    offsets = await at.admin.group_offsets(group)
    configs = [config for config in await at.admin.group_configs(group) if not config.is_default]
    return {
        "state": description.state,
        "epochs": [description.group_epoch, description.assignment_epoch],
        "members": [
            {
                "id": member.member_id,
                "epoch": member.member_epoch,
                "topics": sorted(member.topics),
                "assignment": {topic: list(indexes) for topic, indexes in sorted(member.assignment.items())},
            }
            for member in description.members
        ],
        "start offsets": {
            f"{partition.topic}-{partition.partition}": offset.start_offset
            for partition, offset in sorted(offsets.items(), key=str)
        },
        "configs": {config.name: config.value for config in configs},
    }


async def _state(at: Clients, group: str, topic_id: str, index: int) -> Mapping[str, Any] | None:
    """Returns the stored state of a share-partition, or None without records."""
    request = state.InspectShareGroupStateRequest(group_id=group, topic_id=topic_id, partition=index)
    response = await at.grpc.admin.InspectShareGroupState(request, timeout=TIMEOUT)
    assert response.consistent
    if not response.HasField("folded"):
        return None
    folded = response.folded
    return {
        "state epoch": folded.state_epoch,
        "start offset": folded.start_offset,
        "complete": folded.delivery_complete_count,
        "batches": [
            [batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count]
            for batch in folded.state_batches
        ],
    }


def _committed(kafka: str) -> dict[str, list[Any]]:
    partitions = [TopicPartition(ORDERS, 0), TopicPartition(ORDERS, 1), TopicPartition(TRANSFERS, 0)]
    request = confluent_kafka.ConsumerGroupTopicPartitions(READERS, partitions)
    admin = AdminClient({"bootstrap.servers": kafka})
    listed = admin.list_consumer_group_offsets([request])[READERS].result(TIMEOUT)
    return {
        f"{partition.topic}-{partition.partition}": [partition.offset, partition.metadata]
        for partition in listed.topic_partitions
    }


async def _transactions(at: Clients) -> dict[str, Any]:
    response = await at.requests.ask(_DESCRIBE_TRANSACTIONS, 0, transactional_ids=list(TRANSACTIONS))
    return {
        found.transactional_id: {
            "state": found.transaction_state,
            "producer": [found.producer_id, found.producer_epoch],
            "partitions": {topic.topic: list(topic.partitions) for topic in found.topics},
        }
        for found in response.transaction_states
    }


async def _producers(at: Clients) -> dict[str, Any]:
    topics = [
        part(_DESCRIBE_PRODUCERS, "TopicRequest", name=ORDERS, partition_indexes=[0, 1]),
        part(_DESCRIBE_PRODUCERS, "TopicRequest", name=TRANSFERS, partition_indexes=[0]),
    ]
    response = await at.requests.ask(_DESCRIBE_PRODUCERS, 0, topics=topics)
    return {
        f"{topic.name}-{found.partition_index}": [
            [one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset]
            for one in found.active_producers
        ]
        for topic in response.topics
        for found in topic.partitions
    }
