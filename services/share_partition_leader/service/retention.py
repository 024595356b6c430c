"""Applies retention to the logs this process leads, now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from libs.clock import now
from libs.rpc.router import Router
from services.share_partition_leader.clients.group_offsets import TopicPartition, consumed_offsets
from services.share_partition_leader.service.leadership import Leadership, LedPartition
from sharebroker.errors import KafkaError

_log = structlog.get_logger()


class RetentionTask:
    """Every `interval` seconds; groups are asked only where a topic has `retention.policy=consumed`."""

    def __init__(self, leadership: Leadership, router: Router, interval: float) -> None:
        self._leadership = leadership
        self._router = router
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Goes on until `stop`."""
        self._task = asyncio.create_task(self._run(), name="retention")

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self._apply()
            except KafkaError as error:
                _log.info("retention waits for the next time", reason=str(error))
            except Exception:
                _log.exception("retention failed")

    async def _apply(self) -> None:
        led = self._leadership.partitions()
        consumed: Mapping[TopicPartition, int] = {}
        if any(partition.log.settings.retention.consumed for partition in led):
            consumed = await consumed_offsets(self._router)
        for partition in led:
            await self._apply_to(partition, consumed)

    async def _apply_to(self, led: LedPartition, consumed: Mapping[TopicPartition, int]) -> None:
        _, topic_id, index = led.log.partition.split(":")
        before = led.log.log_start_offset
        start = await led.log.apply_retention(now(), consumed.get((topic_id, int(index))))
        if start > before:
            _log.info("records let go", topic=led.topic.name, partition=int(index), log_start_offset=start)
