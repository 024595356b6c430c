"""Follows the topics of the cluster that has the records; the owner of the catalog stores them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import structlog

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.catalog.upstream_rules import FollowCluster, FollowTopic, ForgetTopic, UpstreamCommand
from sharebroker_server.group_coordinator.core.followed_topics import FollowedTopics
from sharebroker_server.group_coordinator.service.shards import CatalogHost
from sharebroker_server.kafka_client.cluster import ClusterClient
from sharebroker_server.kafka_client.core.metadata import ClusterMetadata
from sharebroker_server.kafka_client.settings import UpstreamSettings

_log = structlog.get_logger()

CHANGES_AT_ONCE: Final = 1_000
"""Changes of topics in one look, so that the first look at a large cluster does not occupy the process."""

RETENTION_SECONDS: Final = 300.0
"""Seconds between two looks at the retention of the topics."""

_NOT_HERE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors of a catalog that another process owns, or that cannot be written now."""


class UpstreamCatalog:
    """Call `run`: it looks at the cluster every `metadata.max.age.ms`, and each second while that fails.
    It looks at once after `topics_changed` of the client.

    It also looks each second until the catalog names the cluster: without an owner, which a catalog lacks at
    first, its topics would be missing until the next look. Every process looks, since its reads use the
    metadata as well. Only the owner of the catalog writes.
    """

    def __init__(
        self,
        host: CatalogHost | None,
        follower: MetadataCache,
        client: ClusterClient,
        settings: UpstreamSettings,
    ) -> None:
        self._host = host
        self._follower = follower
        self._client = client
        self._addresses = settings.addresses
        self._interval = settings.properties.metadata_max_age_ms / 1000
        self._topics = FollowedTopics(settings.properties.topics)
        self._reported: dict[str, str] = {}
        self._retention_due = 0.0

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            well = await self.look()
            changed = self._client.topics_changed
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), self._interval if well else min(self._interval, 1.0))
            changed.clear()

    async def look(self) -> bool:
        """Looks once; returns whether a broker responded and the catalog names the cluster.

        Equal errors in a row are reported once.
        """
        try:
            return await self._look()
        except Exception:  # the task must survive, or no later change would be seen
            _log.exception("upstream topics not followed")
            return False

    async def _look(self) -> bool:
        try:
            metadata = await self._client.refresh()
        except KafkaError as error:
            self._report("", "upstream cluster unreachable", error)
            await self._write(FollowCluster(self._addresses))
            return False
        self._reported.pop("", None)
        self._client.deleted_topics &= {topic.topic_id for topic in self._follower.catalog.topics()}
        try:
            if await self._write(FollowCluster(self._addresses, metadata.cluster_id)):
                await self._follow(metadata)
        except KafkaError as error:
            self._report("", "upstream topics not followed", error)
        await self._read_retention()
        catalog = self._follower.catalog
        return bool(catalog.upstream_cluster_id if metadata.cluster_id else catalog.upstream_addresses)

    async def _read_retention(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._retention_due:
            return
        topics = [topic.name for topic in self._follower.catalog.topics() if topic.upstream]
        try:
            await self._client.refresh_retention(topics)
        except KafkaError as error:
            self._report("retention", "retention of upstream topics unknown", error)
            return
        self._reported.pop("retention", None)
        if topics:
            self._retention_due = now + RETENTION_SECONDS

    async def _follow(self, metadata: ClusterMetadata) -> None:
        catalog = self._follower.catalog
        unlisted = self._topics.unlisted(catalog, metadata)
        if unlisted:
            metadata = await self._client.refresh(unlisted)
        deleted = self._client.deleted_topics
        commands = self._topics.commands(catalog, metadata, asyncio.get_running_loop().time(), deleted)
        for command in commands[:CHANGES_AT_ONCE]:
            await self._write(command)

    async def _write(self, command: UpstreamCommand) -> bool:
        """Returns whether the command was decided here; False if another process owns the catalog."""
        if self._host is None:
            return False
        name = command.name if isinstance(command, FollowTopic) else ""
        try:
            reply = await self._host.shard(0).submit(command)
        except KafkaError as error:
            if error.code not in _NOT_HERE:
                self._report(f"topic {name}", "upstream topic not followed" if name else "upstream", error)
            return False
        self._reported.pop(f"topic {name}", None)
        self._follower.poll_now()
        if isinstance(reply, Topic):
            deleted = isinstance(command, ForgetTopic)
            event = "upstream topic deleted" if deleted else "upstream topic followed"
            _log.info(event, topic=reply.name, id=reply.topic_id, partitions=reply.partitions)
        return True

    def _report(self, subject: str, event: str, error: KafkaError) -> None:
        if self._reported.get(subject) != error.message:
            self._reported[subject] = error.message
            _log.error(event, address=self._addresses, reason=error.message)
