"""A process's view of the cluster's metadata: follows the catalog's log, whoever writes it. Shell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.codec import CatalogCodec
from sharebroker_server.catalog.decide import effective_broker
from sharebroker_server.catalog.machine import SHARD
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ConfigRecord,
    ConfigResource,
    ResourceType,
    Topic,
)
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig, resolve_group
from sharebroker_server.config.topic import TopicConfig, resolve_topic
from sharebroker_server.stream_log.port import LogUnavailable, StreamLog

_logger = logging.getLogger(__name__)

_PAGE: Final = 1000

Listener = Callable[[CatalogRecord], None]


class CatalogFollower:
    """The catalog as of a moment ago, and the settings in force. `poll` in seconds.

    What it offers changes between two turns of the event loop only, and only after a record was durable.
    """

    def __init__(self, log: StreamLog, static: BrokerConfig, *, poll: float = 0.05) -> None:
        self.catalog = TopicCatalog()
        self.broker = static
        self.static = static
        self._log = log
        self._codec = CatalogCodec()
        self._poll = poll
        self._groups: dict[str, GroupConfig] = {}
        self._topics: dict[str, tuple[Topic, TopicConfig]] = {}
        self._listeners: list[Listener] = []
        self._doubtful = False
        self.revision = 0
        """Rises with every change of topics and settings."""
        self._nudged = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def listen(self, listener: Listener) -> None:
        """Calls `listener` with each record that comes in after `start`, once the catalog contains it."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Reads the log to its end, then keeps following. Raises LogUnavailable."""
        await self._catch_up()
        self._task = asyncio.create_task(self._follow(), name="catalog follower")

    async def stop(self) -> None:
        """Follows no longer."""
        if self._task is not None:
            await end([self._task])

    async def recheck(self) -> None:
        """The log may have lost what it had, and others gone on from there: read it from its start."""
        self._doubtful = True
        self.nudge()

    def nudge(self) -> None:
        """Look at once: this process just wrote, or was told that somebody did."""
        self._nudged.set()

    async def wait_for(self, predicate: Callable[[TopicCatalog], bool], timeout: float) -> None:
        """Until the catalog is as asked for, at most `timeout` seconds. Raises REQUEST_TIMED_OUT."""
        self.nudge()
        try:
            async with asyncio.timeout(timeout):
                while not predicate(self.catalog):
                    await self._changed.wait()
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The catalog did not come to what was waited for within {timeout} s.",
            ) from None

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self.catalog.topic(name)

    def topic_by_id(self, topic_id: str) -> Topic | None:
        """The topic of this id."""
        return self.catalog.topic_by_id(topic_id)

    def partitions(self, topic_id: str) -> int:
        """How many partitions the topic of this id has; 0 where there is none."""
        topic = self.catalog.topic_by_id(topic_id)
        return topic.partitions if topic is not None else 0

    def is_deleted(self, topic_id: str) -> bool:
        """Whether the topic existed and is gone."""
        return self.catalog.is_deleted(topic_id)

    def group_config(self, group_id: str) -> GroupConfig:
        """The settings in force for a share group, known or not."""
        settings = self.catalog.configs(ConfigResource(ResourceType.GROUP, group_id))
        # Groups without settings share one entry: names of groups that are gone must not gather here.
        key = group_id if settings else ""
        if key not in self._groups:
            self._groups[key] = resolve_group(settings, self.broker)
        return self._groups[key]

    def topic_config(self, topic: Topic) -> TopicConfig:
        """The settings in force for a topic."""
        known = self._topics.get(topic.topic_id)
        if known is None or known[0] is not topic:
            known = self._topics[topic.topic_id] = topic, resolve_topic(topic.configs, self.broker)
        return known[1]

    async def _follow(self) -> None:
        readable = True
        while True:
            try:
                async with asyncio.timeout(self._poll):
                    await self._nudged.wait()
            except TimeoutError:
                pass
            self._nudged.clear()
            try:
                await self._catch_up()
            except (LogUnavailable, ValueError) as failure:
                if readable:
                    _logger.warning("the catalog stands still: %r", failure)
                readable = False
            except Exception:  # who follows no longer serves the catalog of now for ever
                _logger.exception("following the catalog failed")
            else:
                readable = True

    async def _catch_up(self) -> None:
        doubtful = self._doubtful
        catalog, records = TopicCatalog() if doubtful else self.catalog, list[CatalogRecord]()
        while entries := await self._log.read(SHARD, catalog.position, _PAGE):
            if catalog.position and entries[0].position != catalog.position + 1:
                # Trimmed past us while we could not read: what went away meanwhile shows only from the start.
                catalog, records = TopicCatalog(), []
                continue
            decoded = [self._codec.decode(entry.payload) for entry in entries]
            for entry, record in zip(entries, decoded, strict=True):
                catalog.apply(record, entry.position)
            records += decoded
            if catalog is self.catalog:
                # Page by page: a later one that cannot be read must not keep these from the listeners.
                self._publish(catalog, records)
                records = []
        if records or doubtful:
            self._publish(catalog, records)
        if doubtful:
            self._doubtful = False

    def _publish(self, catalog: TopicCatalog, records: list[CatalogRecord]) -> None:
        # A log that was trimmed past us, or lost its end, no longer says what was put back to its default.
        gone = self.catalog.settings() - catalog.settings() if catalog is not self.catalog else ()
        records = [*(ConfigRecord(*setting, None) for setting in gone), *records]
        self.catalog = catalog
        self.revision += 1
        if any(isinstance(record, ConfigRecord) for record in records):
            self.broker = effective_broker(catalog, self.static)
            self._groups.clear()
        self._topics.clear()
        self._changed.set()
        self._changed = asyncio.Event()
        # Before `start` ends nobody has seen an earlier state.
        for record in records if self._task else ():
            for listener in self._listeners:
                listener(record)
