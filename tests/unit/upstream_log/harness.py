"""A cluster of one topic and two brokers, whose logs tests change, truncate, and move to the other broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from typing_extensions import override

from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.link import BrokerAddress
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.upstream_log.fetching import FetchSettings
from sharebroker_server.upstream_log.sessions import UpstreamLogs
from sharebroker_server.upstream_log.upstream_cluster import Limits, ReadSettings
from sharebroker_server.upstream_log.upstream_log import UpstreamLog
from tests.support.lease import Lease
from tests.testkit.kafka_partition import KafkaPartition
from tests.testkit.memory.record_log import MemoryRecordStore
from tests.unit.kafka_client.harness import SETTINGS, Broker, serving

NAME = "partition:t:0"
TOPIC = "t"
ALL = 1 << 20


class Cluster(KafkaPartition):
    """The partition, with brokers that listen."""

    def __init__(self) -> None:
        super().__init__(TOPIC)
        self.brokers = [Broker(respond=self._responder(n)) for n in (0, 1)]

    @override
    def address(self, node: int) -> tuple[str, int]:
        return "127.0.0.1", self.brokers[node].port

    def _responder(self, node: int) -> Any:
        async def respond(key: int, _version: int, message: Any) -> Message | None:
            return await self.respond(node, key, message)

        return respond


class Harness:
    """A log of the model cluster, opened by a process; `open` again for the next leader."""

    def __init__(self, cluster: Cluster, settings: FetchSettings, limits: Limits) -> None:
        self.cluster = cluster
        self.lease = Lease()
        self.store = MemoryRecordStore(epoch_of=lambda _: self.lease.epoch)
        address = BrokerAddress("127.0.0.1", cluster.brokers[0].port)
        self.client = ClusterClient([address], SETTINGS)
        self.logs = UpstreamLogs(self.client, self.store, ReadSettings(settings, limits))
        self.truncated = 0

    async def open(self) -> UpstreamLog:
        log = await self.logs.open(NAME, self.lease.epoch, TOPIC, "", 0, self.lease)
        log.on_truncated.append(self._count)
        return log

    def _count(self) -> None:
        self.truncated += 1


@asynccontextmanager
async def running(
    settings: FetchSettings | None = None, limits: Limits | None = None
) -> AsyncIterator[Harness]:
    cluster = Cluster()
    async with serving(cluster.brokers[0]), serving(cluster.brokers[1]):
        made = Harness(cluster, settings or FetchSettings(), limits or Limits())
        try:
            yield made
        finally:
            await made.logs.close()
            made.client.close()
