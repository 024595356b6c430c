"""Removes the state of topics whose deletion notice this process missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import KafkaError
from sharebroker_server.share_coordinator.core.commands import DeleteTopicState, ListTopics
from sharebroker_server.share_coordinator.service.shards import Host

_log = structlog.get_logger()


class DeletedTopicCleanup:
    """Checks every `interval` seconds; `is_deleted` looks a topic id up in the metadata cache."""

    def __init__(self, host: Host, is_deleted: Callable[[str], bool], interval: float) -> None:
        self._host = host
        self._is_deleted = is_deleted
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the periodic check."""
        self._task = asyncio.create_task(self._run(), name="deleted topic cleanup")

    async def stop(self) -> None:
        """Stops the periodic check."""
        if self._task is not None:
            await end([self._task])

    async def apply(self) -> None:
        """Checks every shard held here once; a shard that fails is checked again next time."""
        for index in self._host.indices():
            try:
                await self._remove(index)
            except KafkaError as error:
                _log.info("deleted topic cleanup postponed", shard=index, reason=str(error))

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.apply()
            except Exception:  # the task must survive, or the state would never be removed
                _log.exception("deleted topic cleanup failed")

    async def _remove(self, index: int) -> None:
        shard = self._host.shard(index)
        topics = await shard.submit(ListTopics())
        for topic_id in topics if isinstance(topics, frozenset) else ():
            if self._is_deleted(topic_id):
                await shard.submit(DeleteTopicState(topic_id))
