"""The brokers of a cluster: which to ask, and what they answer about topics and offsets.

Metadata comes from any broker: first from those in the metadata, then from the bootstrap addresses. Other
requests go to the leader of a partition. If that is the wrong broker, or cannot be reached, the client
refreshes the metadata and sends the request again, until the caller's deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import doubling
from sharebroker_server.kafka_client.connection import BrokerConnection, ConnectionSettings
from sharebroker_server.kafka_client.core.apis import (
    DESCRIBE_CONFIGS,
    FIRST_LIST_OFFSETS_WITH_NEWEST,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
)
from sharebroker_server.kafka_client.core.metadata import ClusterMetadata, Leader
from sharebroker_server.kafka_client.core.topic_retention import (
    TopicRetention,
    described_retention,
    retention_requests,
)
from sharebroker_server.kafka_client.link import BrokerAddress, BrokerLink
from sharebroker_server.kafka_wire.messages import (
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)

T = TypeVar("T")

EARLIEST: Final = -2
LATEST: Final = -1
NEWEST: Final = -3
"""Timestamps that stand for log start, log end, and the highest timestamp (Kafka: ListOffsetsRequest)."""

CONSUMER: Final = -1
"""The replica id of a client."""

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 1.0
"""Seconds before a repetition (Kafka: retry.backoff.ms and retry.backoff.max.ms)."""

STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors after which the client refreshes the metadata and asks again."""


class ListedOffset(NamedTuple):
    """An offset, with the time (ms) and the leader epoch of its record; -1 for none."""

    offset: int
    timestamp: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The largest leader epoch up to the requested one that the log has, and the offset where it ends.

    -1 for none.
    """

    leader_epoch: int
    end_offset: int


class ClusterClient:
    """A client of one cluster. `metadata` is what the last responses contained.

    `retention` has the topics whose configs the client may read, as of the last `refresh_retention`.
    `topics_changed` is set by callers that changed topics, for those that follow the topics; `deleted_topics`
    are the ids of those that they deleted.
    """

    def __init__(self, bootstrap: Sequence[BrokerAddress], settings: ConnectionSettings) -> None:
        self.metadata = ClusterMetadata()
        self.retention: Mapping[str, TopicRetention] = {}
        self.topics_changed = asyncio.Event()
        self.deleted_topics: set[str] = set()
        self._bootstrap = tuple(bootstrap)
        self._settings = settings
        self._links: dict[tuple[BrokerAddress, str], BrokerLink] = {}
        self._first = 0
        self._refreshing = asyncio.Lock()
        self._away_at = float("-inf")
        self._away = ""
        self._stale: set[str] = set()
        self._refreshing_stale = asyncio.Lock()

    async def connection(self, node_id: int, purpose: str = "requests") -> BrokerConnection:
        """Returns a connection to a broker; requests of different purposes do not wait for each other.

        Raises:
            KafkaError: NETWORK_EXCEPTION for an unknown broker; else as `BrokerLink.connection`.
        """
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"The cluster has no broker {node_id}.")
        return await self._link(BrokerAddress(broker.host, broker.port), purpose).connection()

    async def refresh(self, topics: Collection[str] | None = None) -> ClusterMetadata:
        """Requests metadata of topics, of all by default, from one broker after the other.

        Raises:
            KafkaError: the error of the last broker, if none responds.
        """
        async with self._refreshing:
            addresses = self._addresses()
            failure: KafkaError | None = None
            for address in addresses:
                try:
                    refreshed = await self._metadata_from(address, topics)
                except KafkaError as error:
                    failure = error
                    self._first += 1
                except asyncio.CancelledError:  # its caller has waited for this broker in vain
                    self._first += 1
                    raise
                else:
                    self._away = ""
                    return refreshed
            failure = failure or KafkaError(ErrorCode.NETWORK_EXCEPTION, "There is no bootstrap address.")
            self._away, self._away_at = failure.message, asyncio.get_running_loop().time()
            raise failure

    def away_within(self, seconds: float) -> str:
        """Returns why no broker responded to the last refresh, if that was in the last `seconds`; else ""."""
        recent = asyncio.get_running_loop().time() - self._away_at <= seconds
        return self._away if recent else ""

    async def refresh_retention(self, topics: Sequence[str]) -> None:
        """Reads the retention of topics from the broker that responded last.

        Raises:
            KafkaError: as `BrokerConnection.request`.
        """
        address = next(iter(self._addresses()), None)
        if address is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "There is no bootstrap address.")
        connection = await self._link(address, "requests").connection()
        requests = retention_requests(topics)
        self.retention = described_retention(
            [await connection.request(DESCRIBE_CONFIGS, request) for request in requests]
        )

    def retention_ms(self, topic: str) -> int:
        """Returns the age at which the cluster deletes records of a topic; -1 for none, or if unknown."""
        known = self.retention.get(topic)
        return -1 if known is None else known.ms

    async def listed_offset(
        self, topic: str, partition: int, timestamp: int, timeout: float, *, committed: bool = False
    ) -> ListedOffset:
        """Returns the first offset with a time (ms) or later, or one of EARLIEST, LATEST and NEWEST.

        `committed` limits it to the last stable offset.

        Raises:
            KafkaError: the error of the broker; REQUEST_TIMED_OUT after `timeout` seconds;
                UNSUPPORTED_VERSION for NEWEST before Kafka 3.0.
        """

        async def ask(connection: BrokerConnection, leader: Leader) -> ListedOffset:
            part = ListOffsetsRequest.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=leader.epoch, timestamp=timestamp
            )
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=int(committed),
                topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[part])],
            )
            if timestamp == NEWEST and connection.versions.of(LIST_OFFSETS) < FIRST_LIST_OFFSETS_WITH_NEWEST:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, "Kafka before 3.0 cannot look up the newest record."
                )
            response = await connection.request(LIST_OFFSETS, request, timeout)
            found = _only([part for topic in response.topics for part in topic.partitions])
            _check(found.error_code)
            return ListedOffset(found.offset, found.timestamp, found.leader_epoch)

        return await self.at_leader(topic, partition, timeout, ask)

    async def epoch_end(self, topic: str, partition: int, leader_epoch: int, timeout: float) -> EpochEnd:
        """Returns where a leader epoch ends in the log: records beyond it were truncated (KIP-320).

        Raises:
            KafkaError: the error of the broker; REQUEST_TIMED_OUT after `timeout` seconds.
        """

        async def ask(connection: BrokerConnection, leader: Leader) -> EpochEnd:
            part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=leader.epoch, leader_epoch=leader_epoch
            )
            request = OffsetForLeaderEpochRequest(
                replica_id=CONSUMER,
                topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[part])],
            )
            response = await connection.request(OFFSET_FOR_LEADER_EPOCH, request, timeout)
            found = _only([part for topic in response.topics for part in topic.partitions])
            _check(found.error_code)
            return EpochEnd(found.leader_epoch, found.end_offset)

        return await self.at_leader(topic, partition, timeout, ask)

    def doubt_leaders(self, topic: str) -> None:
        """Forgets the leaders of a topic without id: if it was created again, its epochs are lower."""
        known = self.metadata.topics.get(topic)
        if known is not None and not known.id:
            self.metadata = self.metadata.without_leaders(topic)

    def close(self) -> None:
        """Ends all connections."""
        for link in self._links.values():
            link.close()

    def _link(self, address: BrokerAddress, purpose: str) -> BrokerLink:
        link = self._links.get((address, purpose))
        if link is None:
            link = self._links[address, purpose] = BrokerLink(address, self._settings)
        return link

    def _addresses(self) -> list[BrokerAddress]:
        """Returns the known brokers from the one that responded last, then the bootstrap addresses."""
        known = [BrokerAddress(broker.host, broker.port) for broker in self.metadata.brokers.values()]
        first = self._first % len(known) if known else 0
        return list(dict.fromkeys((*known[first:], *known[:first], *self._bootstrap)))

    async def _metadata_from(self, address: BrokerAddress, topics: Collection[str] | None) -> ClusterMetadata:
        connection = await self._link(address, "requests").connection()
        named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=t) for t in topics]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        response = await connection.request(METADATA, request, self._settings.setup_timeout)
        known = self.metadata.cluster_id
        if known and response.cluster_id and response.cluster_id != known:
            raise KafkaError(
                ErrorCode.NETWORK_EXCEPTION,
                f"{address} belongs to the cluster {response.cluster_id}, not to {known}.",
            )
        self.metadata = self.metadata.updated(response, complete=topics is None)
        self._remove_unused_links()
        return self.metadata

    def _remove_unused_links(self) -> None:
        """Ends the connections to brokers that left the cluster."""
        used = {*self._addresses()}
        for key in [key for key in self._links if key[0] not in used]:
            self._links.pop(key).close()

    async def leader(self, topic: str, partition: int, timeout: float) -> Leader:
        """Returns the leader of a partition; waits until there is one.

        Raises:
            KafkaError: as `at_leader`.
        """

        async def known(_: BrokerConnection, leader: Leader) -> Leader:
            return leader

        return await self.at_leader(topic, partition, timeout, known)

    async def at_leader(
        self,
        topic: str,
        partition: int,
        timeout: float,
        ask: Callable[[BrokerConnection, Leader], Awaitable[T]],
        purpose: str = "requests",
    ) -> T:
        """Returns the result of `ask`, which is called again after errors that another leader may solve.

        Raises:
            KafkaError: the error of `ask`; REQUEST_TIMED_OUT after `timeout` seconds.
        """
        failure: KafkaError | None = None
        pauses: Iterator[float] = doubling(FIRST_PAUSE, LONGEST_PAUSE)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    try:
                        leader = await self._leader(topic, partition, refresh=failure is not None)
                        connection = await self._soon(leader.node_id, purpose, timeout / 2)
                        return await ask(connection, leader)
                    except KafkaError as error:
                        if error.code not in STALE_METADATA:
                            raise
                        failure = error
                        if error.code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                            self.doubt_leaders(topic)
                    await asyncio.sleep(next(pauses))
        except TimeoutError:
            reason = f": {failure.message}" if failure is not None else "."
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The leader of {topic}-{partition} did not respond within {timeout:g} s{reason}",
            ) from failure

    async def _soon(self, node_id: int, purpose: str, timeout: float) -> BrokerConnection:
        """Returns a connection within `timeout` seconds, so that time is left for another leader."""
        try:
            async with asyncio.timeout(timeout):
                return await self.connection(node_id, purpose)
        except TimeoutError:
            message = f"The broker {node_id} could not be reached within {timeout:g} s."
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, message) from None

    async def refresh_stale(self, *topics: str) -> ClusterMetadata:
        """Refreshes topics; callers that wait for a refresh meanwhile share the next one.

        Raises:
            KafkaError: as `refresh`.
        """
        self._stale.update(topics)
        async with self._refreshing_stale:
            if not self._stale.isdisjoint(topics):
                stale, self._stale = self._stale, set()
                await self.refresh(stale)
        return self.metadata

    async def _leader(self, topic: str, partition: int, *, refresh: bool) -> Leader:
        leader = None if refresh else self.metadata.leader(topic, partition)
        if leader is None:
            leader = (await self.refresh_stale(topic)).leader(topic, partition)
        if leader is None:
            _check(self.metadata.errors.get(topic, 0))
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader now.")
        return leader


def _only(parts: Sequence[T]) -> T:
    """Returns the one part of a response for one partition."""
    if len(parts) != 1:
        raise KafkaError(
            ErrorCode.NETWORK_EXCEPTION, f"The response has {len(parts)} partitions instead of one."
        )
    return parts[0]


def _check(error_code: int) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code))
