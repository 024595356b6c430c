"""The partitions this process leads, each with its log and the share groups that read it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Set
from dataclasses import dataclass, field
from typing import Any

import structlog

from libs.catalog.follower import CatalogFollower
from libs.catalog.records import CatalogRecord, Topic, TopicDeletedRecord
from libs.leases import names
from libs.leases.holder import LeaseHolder, LeaseLost
from libs.leases.port import LeasesUnavailable
from libs.persister.port import Persister
from libs.record_log.partition_log import PartitionLog
from libs.record_log.port import RecordStore
from libs.record_log.settings import LogSettings
from services.share_partition_leader.config import CATALOG_LAG, share_partition_settings
from services.share_partition_leader.service.share_group_partition import ShareGroupPartition
from services.share_partition_leader.service.state import load_share_partition, state_writer
from sharebroker.errors import ErrorCode, KafkaError

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Ports:
    """What leading needs from outside."""

    holder: LeaseHolder
    store: RecordStore
    persister: Persister
    catalog: CatalogFollower


@dataclass(slots=True)
class LedPartition:
    """A partition's log, and the share-partitions on it by group: tasks, since loading takes a while."""

    topic: Topic
    log: PartitionLog
    groups: dict[str, asyncio.Task[ShareGroupPartition]] = field(default_factory=dict)

    def loaded(self) -> list[ShareGroupPartition]:
        """The share-partitions that are ready."""
        return [
            task.result()
            for task in self.groups.values()
            if task.done() and not task.cancelled() and task.exception() is None
        ]

    def wake(self) -> None:
        """Records were appended."""
        for share_partition in self.loaded():
            share_partition.wake()


class Leadership:
    """Leads what the leases give it; a partition is claimed at its first use."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._led: dict[str, LedPartition] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        ports.holder.watch("partition", tuple, "share-partition-leader", self._acquired, self._lost)

    async def led(self, topic_id: str, partition: int) -> LedPartition:
        """The partition, claimed and opened if need be.

        Raises KafkaError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
        LEADER_NOT_AVAILABLE, KAFKA_STORAGE_ERROR.
        """
        resource = names.partition(topic_id, partition)
        if self._ports.holder.holds(resource) is not None and resource in self._led:
            return self._led[resource]
        topic = await self._topic(topic_id)
        if not 0 <= partition < topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {topic.name} has partitions 0 to {topic.partitions - 1}, not {partition}.",
            )
        try:
            lease = await self._ports.holder.acquire(resource)
        except LeasesUnavailable as error:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"The lease cannot be had: {error}", retry_after=0.5
            ) from error
        if lease.owner != self._ports.holder.member.owner or resource not in self._led:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Partition {partition} of {topic.name} is led by another process.",
                metadata={"leader": lease.owner},
            )
        return self._led[resource]

    async def share_partition(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        """A group's share-partition, loaded. Raises KafkaError, as `led` and the persister do."""
        led = await self.led(topic_id, partition)
        task = led.groups.get(group_id)
        if task is None:
            task = led.groups[group_id] = asyncio.create_task(self._load(led, group_id))
            task.add_done_callback(lambda done: self._loaded(led, group_id, done))
        return await asyncio.shield(task)

    def release_member(self, group_id: str, member: str, partitions: Set[tuple[str, int]]) -> int:
        """Releases what a member holds, of all partitions if none is named; how many were asked.

        Without a member the group's loaded state is forgotten: somebody changed it.
        """
        asked = [
            loaded
            for led in self._led.values()
            for loaded in led.loaded()
            if loaded.group_id == group_id
            and (not partitions or (loaded.topic_id, loaded.partition) in partitions)
        ]
        for share_partition in asked:
            if member:
                share_partition.release_all(member)
            else:
                share_partition.retire()
        return len(asked)

    def metadata_changed(self, record: CatalogRecord) -> None:
        """Follows the catalog: settings change while in use, deleted topics are given up and removed."""
        if isinstance(record, TopicDeletedRecord):
            self._start(self._drop_topic(record))
            return
        for led in self._led.values():
            led.topic = self._ports.catalog.topic_by_id(led.topic.topic_id) or led.topic
            led.log.settings = self._log_settings(led.topic)
            for share_partition in led.loaded():
                config = self._ports.catalog.group_config(share_partition.group_id)
                share_partition.core.settings = share_partition_settings(config)

    def partitions(self) -> list[LedPartition]:
        """Every partition led now."""
        return list(self._led.values())

    async def close(self) -> None:
        """Gives every partition up, in good order."""
        for resource in list(self._led):
            await self._lost(resource)

    async def _topic(self, topic_id: str) -> Topic:
        """The topic; one that was created a moment ago may not have reached this process yet."""
        catalog = self._ports.catalog
        if catalog.topic_by_id(topic_id) is None and not catalog.is_deleted(topic_id):
            with contextlib.suppress(KafkaError):
                await catalog.wait_for(lambda seen: seen.topic_by_id(topic_id) is not None, CATALOG_LAG)
        topic = catalog.topic_by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic of id {topic_id}.")
        return topic

    def _log_settings(self, topic: Topic) -> LogSettings:
        return LogSettings.of_topic(self._ports.catalog.topic_config(topic))

    async def _acquired(self, resource: str, epoch: int) -> None:
        _, topic_id, _ = resource.split(":")
        topic = await self._topic(topic_id)
        log = await PartitionLog.open(
            resource,
            epoch,
            self._ports.store,
            self._reclaim(resource),
            self._log_settings(topic),
        )
        led = LedPartition(topic, log)
        log.on_append.append(led.wake)
        self._led[resource] = led

    async def _lost(self, resource: str) -> None:
        led = self._led.pop(resource, None)
        if led is None:
            return
        for task in led.groups.values():
            task.cancel()
        for share_partition in led.loaded():
            await share_partition.settle()
            share_partition.retire()
        await led.log.close()

    async def _drop_topic(self, deleted: TopicDeletedRecord) -> None:
        """Removes the logs that are this process's to remove: those it leads, or would lead."""
        holder = self._ports.holder
        for index in range(deleted.partitions):
            resource = names.partition(deleted.topic_id, index)
            owner = await holder.owner_of(resource)
            if owner is not None and owner.owner == holder.member.owner:
                await self._lost(resource)
                await self._ports.store.delete(resource)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("leading failed", exc_info=task.exception())

    def _reclaim(self, resource: str) -> Callable[[], Awaitable[int]]:
        async def reclaim() -> int:
            try:
                return await self._ports.holder.reclaim(resource)
            except LeaseLost as error:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{resource} is another's now.") from error

        return reclaim

    async def _load(self, led: LedPartition, group_id: str) -> ShareGroupPartition:
        config = self._ports.catalog.group_config(group_id)
        core = await load_share_partition(self._ports.persister, led.log, group_id, config)
        return ShareGroupPartition(
            group_id,
            led.topic.name,
            led.log,
            core,
            state_writer(self._ports.persister, group_id, led.log),
            lambda retired: self._forget(led, retired),
        )

    def _loaded(self, led: LedPartition, group_id: str, task: asyncio.Task[ShareGroupPartition]) -> None:
        if task.cancelled() or task.exception() is not None:
            led.groups.pop(group_id, None)

    def _forget(self, led: LedPartition, share_partition: ShareGroupPartition) -> None:
        led.groups.pop(share_partition.group_id, None)
