"""Applies retention to the logs this process leads, and to what they know of producers, now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import KafkaError
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.cluster.router import Router
from sharebroker_server.share_partition_leader.clients.group_offsets import consumed_offsets
from sharebroker_server.share_partition_leader.leadership.leadership import Leadership
from sharebroker_server.share_partition_leader.leadership.led_partition import LedPartition

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
            await end([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.apply()
            except Exception:  # the next time may do better; without a next time logs grow for ever
                _log.exception("retention failed")

    async def apply(self) -> None:
        """Once, on every partition; where it fails, the next time."""
        self._leadership.drop_unused()
        await self._leadership.remove_leftovers()
        led = self._leadership.partitions()
        consumed: Mapping[TopicIdPartition, int] | None = {}
        if any(partition.log.settings.retention.consumed for partition in led):
            consumed = await self._consumed()
        for partition in led:
            if consumed is not None or not partition.log.settings.retention.consumed:
                await self._apply_to(partition, consumed or {})
            await self._forget_producers(partition)

    async def _forget_producers(self, led: LedPartition) -> None:
        """Those that were silent for `producer.id.expiration.ms`."""
        silent_since = int(now() * 1000) - self._leadership.broker.producer_id_expiration_ms
        try:
            await led.log.expire_producers(silent_since)
        except KafkaError as error:
            _log.info("producers stay for now", log=led.log.partition, reason=str(error))

    async def _consumed(self) -> Mapping[TopicIdPartition, int] | None:
        try:
            return await consumed_offsets(self._router)
        except KafkaError as error:
            _log.info("records stay for now: it is not known how far groups are", reason=str(error))
            return None

    async def _apply_to(self, led: LedPartition, consumed: Mapping[TopicIdPartition, int]) -> None:
        topic, partition = led.topic, led.partition
        before = led.log.log_start_offset
        group_offset = consumed.get(TopicIdPartition(topic.topic_id, partition))
        try:
            start = await led.log.apply_retention(now(), group_offset)
        except KafkaError as error:
            _log.info("records stay for now", topic=topic.name, partition=partition, reason=str(error))
            return
        if start > before:
            led.wake()
            _log.info("records let go", topic=topic.name, partition=partition, log_start_offset=start)
