"""The fetch sessions of a process: one with each broker that leads partitions of open logs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, Final

import structlog
from typing_extensions import override

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import Tasks, doubling
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.core.fetch_session import FetchSession, Partition, Position
from sharebroker_server.kafka_client.core.metadata import Leader
from sharebroker_server.leases.port import Ownership
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.upstream_log.fetching import Fetched, FetchSettings, fetch, fetches_by_id
from sharebroker_server.upstream_log.upstream_log import OPEN_SECONDS, Cluster, Limits, Source, UpstreamLog

_log = structlog.get_logger()

FETCHES: Final = "fetches"
"""The purpose of connections for sessions, whose requests wait for records."""

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds before a repetition after an error."""

IDLE_SECONDS: Final = 1.0
"""The longest time in which a session without partitions looks for some."""

_STALE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which the metadata is refreshed."""


class UpstreamLogs(Cluster):
    """The open logs of a process, and the sessions that follow them; `close` it at the end."""

    def __init__(
        self,
        client: ClusterClient,
        store: RecordStore,
        settings: FetchSettings | None = None,
        limits: Limits | None = None,
        cached_bytes: int = 256 << 20,
    ) -> None:
        super().__init__(client, store, settings, limits, cached_bytes)
        self.logs: set[UpstreamLog] = set()
        self._sessions: dict[int, BrokerSession] = {}
        self._tasks = Tasks(_crashed)
        self._refreshing = False
        self._comparing: set[UpstreamLog] = set()

    async def open(
        self, resource: str, epoch: int, topic: str, topic_id: str, partition: int, lease: Ownership
    ) -> UpstreamLog:
        """Opens the log of a partition, and follows it until it is closed.

        `epoch` is that of our lease of the resource. `topic_id` is ignored if the cluster has no topic ids.

        Raises:
            KafkaError: as `UpstreamLog.read`.
        """
        await self.client.leader(topic, partition, OPEN_SECONDS)
        known = self.client.metadata.topics[topic]
        source = Source(topic, partition, topic_id if known.id else "")
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

    def led_by(self, node_id: int) -> Iterator[tuple[UpstreamLog, Leader]]:
        """Yields the logs whose partitions a broker leads."""
        for log in self.logs:
            leader = self.client.metadata.leader(*log.source[:2])
            if leader is not None and leader.node_id == node_id:
                yield log, leader

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
            log.failed(error, FIRST_PAUSE)
        finally:
            self._comparing.discard(log)


class BrokerSession:
    """The session with one broker. `joined` is set when a partition may join it."""

    def __init__(self, logs: UpstreamLogs, node_id: int) -> None:
        self.joined = asyncio.Event()
        self._logs = logs
        self._node_id = node_id
        self._session = FetchSession()
        self._connection: object = None
        self._idle = IDLE_SECONDS

    async def run(self) -> None:
        """Fetches until it is cancelled; pauses after errors."""
        pauses = doubling(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            self.joined.clear()
            try:
                if await self._round():
                    pauses = doubling(FIRST_PAUSE, LONGEST_PAUSE)
                    continue
            except KafkaError as error:
                self._logs.counters.errors += 1
                if error.code in _STALE:
                    self._logs.refresh()
                _log.debug("fetch failed", node=self._node_id, error=error.code.name, reason=error.message)
                await asyncio.sleep(next(pauses))
                continue
            try:
                async with asyncio.timeout(self._idle):
                    await self.joined.wait()
            except TimeoutError:
                pass

    async def _round(self) -> bool:
        """Sends one fetch and applies the response; returns False without a partition to fetch.

        Raises:
            KafkaError: the error of the broker, or of the response as a whole.
        """
        wanted = self._wanted()
        if not wanted:
            return False
        connection = await self._logs.client.connection(self._node_id, FETCHES)
        if connection is not self._connection:
            self._connection, self._session = connection, FetchSession()
        by_id = fetches_by_id(connection)
        named: dict[Partition, tuple[UpstreamLog, Position]] = {}
        for log, position in wanted:
            try:
                named[self._logs.topic_key(log.source, by_id=by_id), log.source.partition] = (log, position)
            except KafkaError as error:
                log.failed(error, LONGEST_PAUSE)
        if not named:
            return False
        asked = self._session.request({key: position for key, (_, position) in named.items()})
        try:
            response = await fetch(connection, asked, self._logs.settings)
        except BaseException:
            self._session.failed()
            raise
        self._logs.counters.fetches += 1
        self._session.responded(response.error_code, response.session_id, response.partitions)
        await self._apply(response, named)
        return True

    def _wanted(self) -> list[tuple[UpstreamLog, Position]]:
        now = asyncio.get_running_loop().time()
        wanted: list[tuple[UpstreamLog, Position]] = []
        self._idle = IDLE_SECONDS
        for log, leader in self._logs.led_by(self._node_id):
            if log.not_before > now:
                self._idle = min(self._idle, log.not_before - now)
                continue
            if log.needs_comparison(leader):
                self._logs.compare(log)
            elif (position := log.position(leader)) is not None:
                wanted.append((log, position))
        return wanted

    async def _apply(self, response: Fetched, named: dict[Partition, tuple[UpstreamLog, Position]]) -> None:
        for key, part in response.partitions.items():
            log, position = named[key]
            try:
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    log.out_of_range()
                    self._logs.spawn(self._find_bounds(log))
                elif part.error_code:
                    raise KafkaError(ErrorCode(part.error_code))
                else:
                    await log.fetched(part, position)
            except KafkaError as error:
                log.failed(error, FIRST_PAUSE if error.code in _STALE else LONGEST_PAUSE)
                if error.code in _STALE:
                    self._logs.refresh()

    async def _find_bounds(self, log: UpstreamLog) -> None:
        try:
            await log.refresh()
        except KafkaError as error:
            log.failed(error, FIRST_PAUSE)


def _crashed(error: BaseException) -> None:
    _log.error("a task of the fetch sessions failed", error=repr(error))
