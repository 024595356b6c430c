"""The fetch sessions of a process: one with each broker that leads partitions of open logs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

import structlog
from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Tasks, doubling
from sharebroker_server.upstream_log.broker_session import FIRST_PAUSE, LONGEST_PAUSE, BrokerSession
from sharebroker_server.upstream_log.upstream_cluster import ReadSettings, UpstreamCluster, UpstreamPartition
from sharebroker_server.upstream_log.upstream_log import OPEN_SECONDS, UpstreamLog

if TYPE_CHECKING:
    from sharebroker_server.kafka_client.cluster import ClusterClient
    from sharebroker_server.kafka_client.core.metadata import Leader
    from sharebroker_server.leases.port import Ownership
    from sharebroker_server.record_log.port import RecordStore

_log = structlog.get_logger()

AWAY_SECONDS: Final = 1.0
"""Seconds after a refresh without response in which no log is opened: `UpstreamCatalog` looks as often."""


class UpstreamLogs(UpstreamCluster):
    """The open logs of a process, and the sessions that follow them; `close` it at the end."""

    def __init__(
        self,
        client: ClusterClient,
        store: RecordStore,
        settings: ReadSettings = ReadSettings(),
    ) -> None:
        super().__init__(client, store, settings)
        self.logs: set[UpstreamLog] = set()
        self._sessions: dict[int, BrokerSession] = {}
        self._tasks = Tasks(_crashed)
        self._refreshing = False
        self._comparing: set[UpstreamLog] = set()
        self._finding: set[UpstreamLog] = set()

    async def open(
        self, resource: str, epoch: int, topic: str, topic_id: str, partition: int, lease: Ownership
    ) -> UpstreamLog:
        """Opens the log of a partition, and follows it until it is closed.

        `epoch` is that of our lease of the resource. `topic_id` is ignored if the cluster has no topic ids.
        This fails at once if no broker responded a moment ago: a claim waits for it, and a shutdown for that.

        Raises:
            KafkaError: as `UpstreamLog.read`.
        """
        away = self.client.away_within(AWAY_SECONDS)
        if away:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{topic}-{partition} cannot be read, no broker of its cluster responds: {away}",
                retry_after=AWAY_SECONDS,
            )
        await self.client.leader(topic, partition, OPEN_SECONDS)
        known = self.client.metadata.topics.get(topic)
        if known is None:  # deleted meanwhile
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The cluster has no topic {topic}.")
        source = UpstreamPartition(topic, partition, topic_id if known.id else "")
        log = await UpstreamLog.open(resource, epoch, source, self, lease)
        self.logs.add(log)
        self.wake(log)
        return log

    async def close(self) -> None:
        """Ends the sessions."""
        await self._tasks.stop()

    @override
    def wake(self, log: UpstreamLog) -> None:
        if log not in self.logs:
            return
        leader = self.client.metadata.leader(*log.source[:2])
        if leader is None:
            self.refresh()
            return
        session = self._sessions.get(leader.node_id)
        if session is None:
            session = self._sessions[leader.node_id] = BrokerSession(self, leader.node_id)
            self.spawn(session.run())
        session.joined.set()

    @override
    def removed(self, log: UpstreamLog) -> None:
        self.logs.discard(log)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work that ends with this object."""
        self._tasks.spawn(work)

    def refresh(self) -> None:
        """Refreshes the metadata of the logs' topics, with pauses, until each partition has a leader."""
        if not self._refreshing:
            self._refreshing = True
            self.spawn(self._refresh())

    def compare(self, log: UpstreamLog) -> None:
        """Compares a log with its present leader's, once at a time."""
        if log not in self._comparing:
            self._comparing.add(log)
            self.spawn(self._compare(log))

    def find_bounds(self, log: UpstreamLog) -> None:
        """Makes the bounds of a log current, once at a time."""
        if log not in self._finding:
            self._finding.add(log)
            self.spawn(self._find_bounds(log))

    def led_by(self, node_id: int) -> Iterator[tuple[UpstreamLog, Leader]]:
        """Yields the logs whose partitions a broker leads.

        Any request for metadata may have found another leader: logs that no session follows are woken.
        """
        for log in self.logs:
            leader = self.client.metadata.leader(*log.source[:2])
            if leader is not None and leader.node_id == node_id:
                yield log, leader
            elif leader is None or leader.node_id not in self._sessions:
                self.wake(log)

    async def _refresh(self) -> None:
        try:
            for pause in doubling(FIRST_PAUSE, LONGEST_PAUSE):
                topics = {log.source.topic for log in self.logs}
                try:
                    await self.client.refresh(topics) if topics else None
                except KafkaError as error:
                    _log.debug("metadata of the cluster postponed", reason=error.message)
                else:
                    for log in [*self.logs]:
                        self.wake(log)
                    if all(self.client.metadata.leader(*log.source[:2]) for log in self.logs):
                        break
                await asyncio.sleep(pause)
        finally:
            self._refreshing = False

    async def _compare(self, log: UpstreamLog) -> None:
        try:
            await log.compare()
        except KafkaError as error:
            if error.code is ErrorCode.LEADER_NOT_AVAILABLE:  # perhaps a deposed one
                self.refresh()
                log.failed(error, LONGEST_PAUSE if log.failing else FIRST_PAUSE)
            else:
                log.failed(error, FIRST_PAUSE)
        finally:
            self._comparing.discard(log)

    async def _find_bounds(self, log: UpstreamLog) -> None:
        try:
            await log.refresh()
        except KafkaError as error:
            log.failed(error, FIRST_PAUSE)
        finally:
            self._finding.discard(log)


def _crashed(error: BaseException) -> None:
    _log.error("a task of the fetch sessions failed", error=repr(error))
