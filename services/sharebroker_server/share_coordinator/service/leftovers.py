"""Removes the state of topics that were deleted while this process, or whoever tells it, was away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.share_coordinator.core.commands import Command, DeleteTopic, ListTopics, Reply
from sharebroker_server.share_coordinator.core.records import ShareRecord

_log = structlog.get_logger()

Host = ShardHost[Command, ShareRecord, Reply]


class Leftovers:
    """Looks every `interval` seconds; `is_deleted` asks the cluster's metadata about a topic id."""

    def __init__(
        self, host: Host, is_deleted: Callable[[str], bool], interval: float, write_timeout: float
    ) -> None:
        self._host = host
        self._is_deleted = is_deleted
        self._interval = interval
        self._timeout = write_timeout
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Goes on until `stop`."""
        self._task = asyncio.create_task(self._run(), name="leftovers of deleted topics")

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            await end([self._task])

    async def apply(self) -> None:
        """Once, on every shard held here; where it fails, the next time."""
        for index in self._host.indices():
            try:
                await self._remove(index)
            except KafkaError as error:
                _log.info("state of deleted topics stays for now", shard=index, reason=str(error))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.apply()
            except Exception:  # without a next time they would stay for ever
                _log.exception("removing state of deleted topics failed")

    async def _remove(self, index: int) -> None:
        shard = self._host.shard(index)
        topics = await shard.write(ListTopics(), timeout=self._timeout)
        for topic_id in topics if isinstance(topics, frozenset) else ():
            if self._is_deleted(topic_id):
                await shard.write(DeleteTopic(topic_id), timeout=self._timeout)
