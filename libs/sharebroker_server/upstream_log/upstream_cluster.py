"""What the logs of a process have in common: the client, the store, the limits, and how topics are named."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.upstream_log.core.chunks import ChunkCache
from sharebroker_server.upstream_log.fetching import FetchSettings
from sharebroker_server.upstream_log.metrics import Counters

if TYPE_CHECKING:
    from sharebroker_server.upstream_log.upstream_log import UpstreamLog


DEPOSED_SECONDS: Final = 30.0
"""The longest time in which a deposed leader may respond (Kafka: zookeeper.session.timeout.ms is 18 s)."""


class UpstreamPartition(NamedTuple):
    """The partition in the other cluster; `topic_id` is "" if the cluster has no topic ids."""

    topic: str
    partition: int
    topic_id: str

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Limits(NamedTuple):
    """Bytes of a partition's chunks, per isolation level, and of those that no reader has read yet.

    `total` are the bytes of all chunks of the process.
    """

    cached: int = 8 << 20
    tail: int = 4 << 20
    total: int = 256 << 20


class ReadSettings(NamedTuple):
    """How the logs of a process fetch, and what they keep in memory."""

    fetch: FetchSettings = FetchSettings()
    limits: Limits = Limits()


class UpstreamCluster:
    """What the logs of a process have in common; `sessions.UpstreamLogs` adds the sessions."""

    def __init__(
        self,
        client: ClusterClient,
        store: RecordStore,
        settings: ReadSettings = ReadSettings(),
    ) -> None:
        self.client = client
        self.store = store
        self.settings, self.limits = settings
        self.cache = ChunkCache(self.limits.total)
        self.counters = Counters()
        self._lower_since: dict[UpstreamPartition, tuple[float, float]] = {}

    def topic_key(self, source: UpstreamPartition, *, by_id: bool) -> str:
        """Returns how fetches name the topic.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION if another topic has its name now.
        """
        known = self.client.metadata.topics.get(source.topic)
        if source.topic_id and known is not None and known.id and known.id != source.topic_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"The topic {source.topic} was deleted and created again.",
            )
        if not by_id:
            return source.topic
        return source.topic_id or (known.id if known is not None else "")

    def check_other_log(self, source: UpstreamPartition, *, is_other: bool) -> None:
        """Raises while a leader of a lower epoch may be a deposed one; returns if its log is another one.

        Topic ids show that a topic was created again. Without them only time does: a leader that is deposed
        ends within its session with the controller.

        Raises:
            KafkaError: LEADER_NOT_AVAILABLE.
        """
        if not is_other:
            self._lower_since.pop(source, None)
            return
        now = asyncio.get_running_loop().time()
        since, last = self._lower_since.get(source, (now, now))
        if now - last >= DEPOSED_SECONDS:  # of another time
            since = now
        self._lower_since[source] = (since, now)
        if source.topic_id or now - since < DEPOSED_SECONDS:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"The leader of {source} has an earlier epoch than what was read. If the topic was created "
                f"again, it is read after {DEPOSED_SECONDS:g} s.",
            )
        del self._lower_since[source]

    def wake(self, log: UpstreamLog) -> None:
        """Notes that a log may join its session."""

    def removed(self, log: UpstreamLog) -> None:
        """Notes that a log was closed."""
