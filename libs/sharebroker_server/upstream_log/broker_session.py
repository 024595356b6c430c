"""The fetch session with one broker: rounds of one request, for the partitions that may join."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.aio import doubling
from sharebroker_server.kafka_client.cluster import STALE_METADATA
from sharebroker_server.kafka_client.core.fetch_session import FetchSession, Partition, Position
from sharebroker_server.upstream_log.fetching import FetchedPartitions, fetch, fetches_by_id

if TYPE_CHECKING:
    from sharebroker_server.upstream_log.sessions import UpstreamLogs
    from sharebroker_server.upstream_log.upstream_log import UpstreamLog

_log = structlog.get_logger()

FETCHES: Final = "fetches"
"""The purpose of connections for sessions, whose requests wait for records."""

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds before a repetition after an error."""

IDLE_SECONDS: Final = 1.0
"""The longest time in which a session without partitions looks for some."""

_STALE: Final = STALE_METADATA | {ErrorCode.REQUEST_TIMED_OUT}
"""Errors after which the metadata is refreshed."""


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
            except Exception:  # without this session no partition of the broker would grow
                _log.exception("a task of the fetch sessions failed", node=self._node_id)
                self._session.failed()
                await asyncio.sleep(LONGEST_PAUSE)
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
                self._logs.refresh()
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
            elif log.needs_bounds(now):
                self._logs.find_bounds(log)
            elif (position := log.position(leader)) is not None:
                wanted.append((log, position))
        return wanted

    async def _apply(
        self, response: FetchedPartitions, named: dict[Partition, tuple[UpstreamLog, Position]]
    ) -> None:
        for key, part in response.partitions.items():
            log, position = named[key]
            try:
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    pause = LONGEST_PAUSE if log.failing else FIRST_PAUSE  # the first may be a deletion
                    log.out_of_range()
                    log.failed(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE), pause)
                    self._logs.find_bounds(log)
                elif part.error_code:
                    raise KafkaError(ErrorCode(part.error_code))
                else:
                    await log.fetched(part, position)
            except KafkaError as error:
                log.failed(error, FIRST_PAUSE if error.code in _STALE else LONGEST_PAUSE)
                if error.code is ErrorCode.UNKNOWN_LEADER_EPOCH:
                    self._logs.client.doubt_leaders(log.source.topic)
                if error.code in _STALE:
                    self._logs.refresh()
