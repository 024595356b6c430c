"""Fetch requests and responses: topics by name, or by id from version 13 on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from sharebroker_server.kafka_client.connection import BrokerConnection
from sharebroker_server.kafka_client.core.apis import FETCH, FIRST_FETCH_WITH_TOPIC_IDS
from sharebroker_server.kafka_client.core.fetch_session import Partition, Position, SessionRequest
from sharebroker_server.kafka_wire.messages import FetchRequest, FetchResponse

T = TypeVar("T")

CONSUMER: Final = -1
NO_SESSION: Final = -1
"""The session epoch of a request without session."""

LATE: Final = 10.0
"""Seconds that a broker has for a response, beyond the wait for records."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """By Kafka's names: fetch.max.wait.ms, fetch.min.bytes, max.partition.fetch.bytes, fetch.max.bytes."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    partition_bytes: int = 1 << 20
    max_bytes: int = 50 << 20


@dataclass(frozen=True, slots=True)
class FetchedPartitions:
    """A response: its error and session, and the partitions in it."""

    error_code: int
    session_id: int
    partitions: dict[Partition, FetchResponse.PartitionData]


def fetches_by_id(connection: BrokerConnection) -> bool:
    """Whether fetches of this connection name topics by id. Raises UNSUPPORTED_VERSION."""
    return connection.versions.of(FETCH) >= FIRST_FETCH_WITH_TOPIC_IDS


async def fetch(
    connection: BrokerConnection,
    asked: SessionRequest,
    settings: FetchSettings,
    *,
    committed: bool = False,
    max_wait_ms: int | None = None,
) -> FetchedPartitions:
    """Sends one fetch; the partitions in `asked` have ids or names, as `fetches_by_id` requires.

    Raises:
        KafkaError: as `BrokerConnection.request`; errors of the response are in the result.
    """
    by_id = fetches_by_id(connection)
    wait = settings.max_wait_ms if max_wait_ms is None else max_wait_ms
    request = FetchRequest(
        replica_id=CONSUMER,
        max_wait_ms=wait,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=int(committed),
        session_id=asked.session_id,
        session_epoch=asked.session_epoch,
        topics=[
            FetchRequest.FetchTopic(
                topic="" if by_id else topic, topic_id=topic if by_id else "", partitions=parts
            )
            for topic, parts in _by_topic(
                (partition, _wire(partition[1], position)) for partition, position in asked.changed.items()
            )
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(
                topic="" if by_id else topic, topic_id=topic if by_id else "", partitions=parts
            )
            for topic, parts in _by_topic((partition, partition[1]) for partition in asked.forgotten)
        ],
    )
    response = await connection.request(FETCH, request, wait / 1000 + LATE)
    return FetchedPartitions(
        response.error_code,
        response.session_id,
        {
            (topic.topic_id if by_id else topic.topic, part.partition_index): part
            for topic in response.responses
            for part in topic.partitions
        },
    )


def alone(partition: Partition, position: Position) -> SessionRequest:
    """Returns a request for one partition, without a session."""
    return SessionRequest(0, NO_SESSION, {partition: position}, ())


def _wire(index: int, position: Position) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(
        partition=index,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_fetched_epoch,
        partition_max_bytes=position.max_bytes,
    )


def _by_topic(parts: Iterable[tuple[Partition, T]]) -> Collection[tuple[str, list[T]]]:
    """Returns what belongs to the partitions of each topic, in the order of the topics' first partitions."""
    found: dict[str, list[T]] = {}
    for (topic, _), part in parts:
        found.setdefault(topic, []).append(part)
    return found.items()
