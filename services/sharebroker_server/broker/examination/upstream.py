"""Reads the facts about the Kafka cluster that has the records (see `core.upstream_diagnosis`)."""

from __future__ import annotations

import asyncio
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.core.diagnosis import Finding
from sharebroker_server.broker.core.upstream_diagnosis import UpstreamFacts, of_upstream
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.connection import BrokerConnection
from sharebroker_server.kafka_client.core.apis import FETCH, LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH
from sharebroker_server.kafka_client.core.fetch_session import Position
from sharebroker_server.kafka_client.core.metadata import ClusterMetadata, Leader, TopicLeaders
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.kafka_client.settings import UpstreamSettings
from sharebroker_server.upstream_log.fetching import FetchSettings, alone, fetch, fetches_by_id

MOST_TOPICS: Final = 200
"""Maximum number of topics that are read."""

WITHIN: Final = 5.0
"""Seconds for each topic."""

DESCRIBED_WITHIN: Final = 10.0
"""Seconds for the retention of all topics."""

_REQUIRED: Final = (METADATA, LIST_OFFSETS, FETCH, OFFSET_FOR_LEADER_EPOCH)


async def examine_upstream(settings: UpstreamSettings) -> list[Finding]:
    """Returns findings of a connection to each broker, and of a read of each topic."""
    client = ClusterClient(settings.bootstrap, settings.connection)
    addresses = {str(address): await _usable(address, settings) for address in settings.bootstrap}
    try:
        metadata = await client.refresh()
    except KafkaError:
        client.close()
        return list(of_upstream(UpstreamFacts(addresses)))
    try:
        for broker in metadata.brokers.values():
            address = BrokerAddress(broker.host, broker.port)
            if str(address) not in addresses:
                addresses[str(address)] = await _usable(address, settings)
        topics = [topic for name, topic in sorted(metadata.topics.items()) if not name.startswith("__")]
        await _describe(client, [topic.name for topic in topics])
        unread = {topic.name: await _unread(client, topic) for topic in topics[:MOST_TOPICS] if topic.leaders}
    finally:
        client.close()
    return list(
        of_upstream(
            UpstreamFacts(
                addresses,
                len(topics),
                all(topic.id for topic in topics),
                {name: reason for name, reason in unread.items() if reason},
                [topic.name for topic in topics if _leaderless(metadata, topic)],
                client.retention,
                [topic.name for topic in topics if topic.name not in client.retention],
            )
        )
    )


def _leaderless(metadata: ClusterMetadata, topic: TopicLeaders) -> bool:
    return any(metadata.leader(topic.name, partition) is None for partition in topic.leaders)


async def _usable(address: BrokerAddress, settings: UpstreamSettings) -> str:
    """Returns why a broker cannot be used, else ""."""
    try:
        connection = await BrokerConnection.open(address.host, address.port, settings.connection)
    except KafkaError as error:
        return error.message
    try:
        for api in _REQUIRED:
            connection.versions.of(api)
    except KafkaError as error:
        return error.message
    finally:
        connection.close()
    return ""


async def _describe(client: ClusterClient, topics: list[str]) -> None:
    """Reads the retention of topics; it is unknown if the broker does not respond."""
    try:
        async with asyncio.timeout(DESCRIBED_WITHIN):
            await client.refresh_retention(topics)
    except (KafkaError, TimeoutError):
        return


async def _unread(client: ClusterClient, topic: TopicLeaders) -> str:
    """Returns why the log of a topic cannot be read, else "". A partition without leader is not a reason."""
    led = (index for index in sorted(topic.leaders) if client.metadata.leader(topic.name, index))
    partition = next(led, None)
    if partition is None:
        return ""

    async def ask(connection: BrokerConnection, leader: Leader) -> str:
        name = topic.id if fetches_by_id(connection) else topic.name
        at = (name, partition)
        asked = alone(at, Position(0, 1, leader.epoch))
        found = await fetch(connection, asked, FetchSettings(), max_wait_ms=0)
        code = ErrorCode(found.error_code or found.partitions[at].error_code)
        readable = code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)
        return "" if readable else f"{code.name}."

    try:
        async with asyncio.timeout(WITHIN):
            return await client.at_leader(topic.name, partition, WITHIN, ask)
    except KafkaError as error:
        return error.message
    except TimeoutError:
        return f"its leader did not respond within {WITHIN:g} s."
