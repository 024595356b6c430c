"""A broker's metadata cache: a copy of the catalog, kept current by reading the catalog's log.

Theory of operation
-------------------

Any broker may own the catalog; every broker reads its log. The cache polls for records after its position
every `poll` seconds, and at once after `poll_now`. It reads page by page, applies each record, and then calls
the observers. Two events force a reload from the start of the log: a gap between the cached position and the
first entry (the log was trimmed beyond it), and `recheck` (Redis may have lost records). A reload builds a
new catalog and replaces the old one in one step. Configs that exist only in the old catalog are published as
reset, since no record of the new log mentions them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.catalog import TopicCatalog
from sharebroker_server.catalog.machine import SHARD, effective_broker
from sharebroker_server.catalog.records import UNSTORED_LEVELS, CatalogCodec, CatalogRecord, ConfigRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig, resolve_group
from sharebroker_server.config.topic import TopicConfig, resolve_topic
from sharebroker_server.stream_log.port import LogUnavailable, StreamLog

_log = structlog.get_logger()

_PAGE: Final = 1000

Observer = Callable[[CatalogRecord], None]


class MetadataCache:
    """The catalog, a few milliseconds old, and the effective configs. `poll` is in seconds.

    `unstored` are the levels of features of a cluster that stores none, `new` those of a new cluster, which
    stores them together with its id. The contents change only between two turns of the event loop, and only
    by durable records.
    """

    def __init__(
        self,
        log: StreamLog,
        static: BrokerConfig,
        *,
        poll: float = 0.05,
        unstored: Mapping[str, int] = UNSTORED_LEVELS,
        new: Mapping[str, int] = UNSTORED_LEVELS,
    ) -> None:
        self.catalog = TopicCatalog()
        self.unstored = unstored
        self._new = new
        self.features = new
        """The level of each feature."""
        self.topic = self.catalog.topic
        """Returns the topic with a name."""
        self.topic_by_id = self.catalog.topic_by_id
        """Returns the topic with an id."""
        self.broker = static
        self.static = static
        self._log = log
        self._codec = CatalogCodec()
        self._poll = poll
        self._groups: dict[str, GroupConfig] = {}
        self._topics: dict[str, tuple[Topic, TopicConfig]] = {}
        self._observers: list[Observer] = []
        self._access_observers: list[Callable[[], None]] = []
        self._needs_reload = False
        self._access = (self.catalog, 0)
        self.revision = 0
        """A number that increases with every change of topics and configs."""
        self._poll_requested = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add_observer(self, observer: Observer) -> None:
        """Registers `observer`, which is called with each record applied after `start`."""
        self._observers.append(observer)

    def add_access_observer(self, observer: Callable[[], None]) -> None:
        """Registers `observer`, which is called after each change of users or ACLs."""
        self._access_observers.append(observer)

    async def start(self) -> None:
        """Reads the log to its end, then starts polling. Raises LogUnavailable."""
        await self._catch_up()
        self._task = asyncio.create_task(self._poll_forever(), name="metadata cache")

    async def stop(self) -> None:
        """Stops polling."""
        if self._task is not None:
            await end([self._task])

    async def recheck(self) -> None:
        """Requests a reload.

        The log may have lost records, and other brokers may have continued from there.
        """
        self._needs_reload = True
        self.poll_now()

    def poll_now(self) -> None:
        """Polls at once: this process wrote a record, or was notified of one."""
        self._poll_requested.set()

    async def wait_for(self, predicate: Callable[[TopicCatalog], bool], timeout: float) -> None:
        """Waits until the catalog satisfies `predicate`, at most `timeout` seconds.

        Raises REQUEST_TIMED_OUT.
        """
        self.poll_now()
        try:
            async with asyncio.timeout(timeout):
                while not predicate(self.catalog):
                    await self._changed.wait()
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"The metadata cache did not reach the expected state within {timeout} s.",
            ) from None

    def partitions(self, topic_id: str) -> int:
        """Returns the number of partitions of the topic with this id; 0 if it is unknown."""
        topic = self.topic_by_id(topic_id)
        return topic.partitions if topic is not None else 0

    def partition_exists(self, topic_id: str, partition: int) -> bool:
        """Returns whether the topic with this id has the partition."""
        topic = self.topic_by_id(topic_id)
        return topic is not None and 0 <= partition < topic.partitions

    def state_in_log(self, topic_id: str) -> bool:
        """Returns whether the topic with this id has the state of its share groups in its own logs."""
        topic = self.topic_by_id(topic_id)
        return topic is not None and topic.state_in_log

    def is_deleted(self, topic_id: str) -> bool:
        """Returns whether the topic was deleted."""
        return self.catalog.is_deleted(topic_id)

    def group_config(self, group_id: str) -> GroupConfig:
        """Returns the effective config of a share group, whether or not it exists."""
        settings = self.catalog.dynamic_configs.get(ConfigResource(ResourceType.GROUP, group_id))
        # Groups without configs share one entry, so that names of deleted groups do not accumulate here.
        key = group_id if settings else ""
        if key not in self._groups:
            self._groups[key] = resolve_group(settings or {}, self.broker)
        return self._groups[key]

    def lock_timeout_ms(self, group_id: str) -> int:
        """Returns the duration of an acquisition lock in this group."""
        return self.group_config(group_id).share_record_lock_duration_ms

    def topic_config(self, topic: Topic) -> TopicConfig:
        """Returns the effective config of a topic."""
        cached = self._topics.get(topic.topic_id)
        if cached is None or cached[0] is not topic:
            cached = self._topics[topic.topic_id] = topic, resolve_topic(topic.configs, self.broker)
        return cached[1]

    async def _poll_forever(self) -> None:
        readable = True
        while True:
            try:
                async with asyncio.timeout(self._poll):
                    await self._poll_requested.wait()
            except TimeoutError:
                pass
            self._poll_requested.clear()
            try:
                await self._catch_up()
            except (LogUnavailable, ValueError) as failure:
                if readable:
                    _log.warning("catalog unreadable, serving cached metadata", reason=repr(failure))
                readable = False
            except Exception:  # the task must survive, or this broker would serve stale metadata
                _log.exception("catalog poll failed")
            else:
                readable = True

    async def _catch_up(self) -> None:
        reload = self._needs_reload
        catalog, records = TopicCatalog() if reload else self.catalog, list[CatalogRecord]()
        while entries := await self._log.read(SHARD, catalog.position, _PAGE):
            if catalog.position and entries[0].position != catalog.position + 1:
                # The log was trimmed beyond our position: only a reload shows what was removed in the
                # meantime.
                catalog, records = TopicCatalog(), []
                continue
            decoded = [self._codec.decode(entry.payload) for entry in entries]
            for entry, record in zip(entries, decoded, strict=True):
                catalog.apply(record, entry.position)
            records += decoded
            if catalog is self.catalog:
                # Publish page by page: a later page that cannot be read must not delay these records.
                self._publish(catalog, records)
                records = []
        if records or reload:
            self._publish(catalog, records)
        if reload:
            self._needs_reload = False

    def _publish(self, catalog: TopicCatalog, records: list[CatalogRecord]) -> None:
        # A trimmed or shortened log no longer contains the resets of configs that are missing in it.
        removed = self.catalog.settings() - catalog.settings() if catalog is not self.catalog else ()
        records = [*(ConfigRecord(*setting, None) for setting in removed), *records]
        self.catalog = catalog
        self.features = catalog.feature_levels or (self.unstored if catalog.cluster_id else self._new)
        self.topic = catalog.topic
        self.topic_by_id = catalog.topic_by_id
        self.revision += 1
        if any(isinstance(record, ConfigRecord) for record in records):
            self.broker = effective_broker(catalog, self.static)
            self._groups.clear()
        self._topics.clear()
        self._changed.set()
        self._changed = asyncio.Event()
        # Before `start` ends, no caller has seen an earlier state.
        for record in records if self._task else ():
            for observer in self._observers:
                observer(record)
        self._publish_access()

    def _publish_access(self) -> None:
        access = (self.catalog, self.catalog.access_changes)
        if access != self._access:
            self._access = access
            for changed in self._access_observers:
                changed()
