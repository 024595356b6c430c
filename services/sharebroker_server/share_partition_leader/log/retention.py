"""Applies retention periodically to the logs of led partitions, and expires their producers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.routing.router import GROUP_COORDINATOR, Router
from sharebroker_server.share_partition_leader.dead_letters.append import expire_notes
from sharebroker_server.share_partition_leader.leadership import Leadership, LedPartition

_log = structlog.get_logger()


class RetentionTask:
    """Runs every `interval` seconds; reads group offsets only if a topic has `retention.policy=consumed`."""

    def __init__(self, leadership: Leadership, router: Router, interval: float) -> None:
        self._leadership = leadership
        self._router = router
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the periodic run."""
        self._task = asyncio.create_task(self._run(), name="retention")

    async def stop(self) -> None:
        """Stops it."""
        if self._task is not None:
            await end([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                await self.apply()
            except Exception:  # the next run may succeed; without it logs would grow indefinitely
                _log.exception("retention failed")

    async def apply(self) -> None:
        """Applies retention once to every partition; a failure is retried by the next run."""
        self._leadership.drop_unused()
        await self._leadership.remove_leftovers()
        led = [each for each in self._leadership.partitions() if isinstance(each.log, PartitionLog)]
        consumed: Mapping[TopicIdPartition, int] | None = {}
        if any(partition.own_log.settings.retention.consumed for partition in led):
            try:
                consumed = await consumed_offsets(self._router)
            except KafkaError as error:
                _log.info("retention postponed: group offsets unavailable", reason=str(error))
                consumed = None
        for partition in led:
            if consumed is not None or not partition.own_log.settings.retention.consumed:
                await self._apply_to(partition, consumed or {})
            await self._expire_producers(partition)
            await self._renew_state(partition)

    async def _expire_producers(self, led: LedPartition) -> None:
        """Expires producers and letter notes unused for `producer.id.expiration.ms`, and past schedules."""
        silent_since = int(now() * 1000) - self._leadership.broker.producer_id_expiration_ms
        try:
            await led.own_log.expire_producers(silent_since)
            await expire_notes(led.own_log, silent_since)
            await led.own_log.forget_schedules()
        except KafkaError as error:
            _log.info("producer expiration postponed", log=led.log.partition, reason=str(error))

    async def _renew_state(self, led: LedPartition) -> None:
        """Checkpoints share groups whose newest checkpoint is far from the log end, if the log has them."""
        try:
            await led.own_log.renew_state()
        except KafkaError as error:
            _log.info("checkpoints of share groups postponed", log=led.log.partition, reason=str(error))

    async def _apply_to(self, led: LedPartition, consumed: Mapping[TopicIdPartition, int]) -> None:
        topic, partition = led.topic, led.partition
        before = led.log.log_start_offset
        group_offset = consumed.get(TopicIdPartition(topic.topic_id, partition))
        try:
            start = await led.own_log.apply_retention(now(), group_offset)
        except KafkaError as error:
            _log.info("retention postponed", topic=topic.name, partition=partition, reason=str(error))
            return
        for loaded in led.loaded():
            loaded.check_backoff()
            if start > before:
                loaded.count_deleted(start)
        if start > before:
            led.wake()
            _log.info(
                "records deleted by retention", topic=topic.name, partition=partition, log_start_offset=start
            )


TIMEOUT: Final = 10.0
"""Seconds for one call."""


async def consumed_offsets(router: Router) -> Mapping[TopicIdPartition, int]:
    """Returns the lowest start offset of all share groups, by partition.

    A group without a start offset counts as 0: no record that it may need is deleted. Raises KafkaError if a
    coordinator does not respond or a shard has no owner: the result would be incomplete.
    """
    lowest: dict[TopicIdPartition, int] = defaultdict(lambda: 1 << 62)
    shards: list[int] = []
    for peer in router.group_coordinators():
        listed = await peer.stub.ListGroups(pb.ListGroupsRequest(types_filter=["share"]), timeout=TIMEOUT)
        shards += listed.shards
        request = pb.DescribeShareGroupOffsetsRequest()
        for group in listed.groups:
            request.groups.add(group_id=group.group_id, all_topics=True)
        response = await peer.stub.DescribeShareGroupOffsets(request, timeout=TIMEOUT)
        for described in response.groups:
            _lower(lowest, described)
    router.check_all_answered(GROUP_COORDINATOR, shards)
    return lowest


def _lower(
    lowest: dict[TopicIdPartition, int], described: pb.DescribeShareGroupOffsetsResponse.Group
) -> None:
    if described.error_code:
        raise KafkaError(ErrorCode(described.error_code), described.error_message)
    for topic in described.topics:
        for partition in topic.partitions:
            key = TopicIdPartition(topic.topic_id, partition.partition)
            lowest[key] = min(lowest[key], max(partition.start_offset, 0))
