"""The partitions that this process leads: claimed, opened, loaded for share groups, and relinquished.

A partition is claimed at its first use, or when the lease holder assigns it. While the lease is held the
partition has one log and, per group, at most one share-partition. `groups` holds the tasks that load them,
`ready` those that are loaded and not retired. A share-partition that retires is removed from both; the next
use loads the stored state again. On a hand-over the lease is kept until all share-partitions have stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from sharebroker_protocol import tracing
from sharebroker_protocol.cancellation import end
from sharebroker_protocol.clock import monotonic, now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.catalog.features import DEAD_LETTERS, SHARE
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import (
    CatalogRecord,
    ClusterRecord,
    ConfigRecord,
    PartitionsRecord,
    TopicDeletedRecord,
    TopicRecord,
)
from sharebroker_server.catalog.topics import ConfigResource, ResourceType, Topic
from sharebroker_server.catalog.upstream_rules import is_own_id
from sharebroker_server.config.broker import BrokerConfig
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.leases import names
from sharebroker_server.leases.holder import LeaseHolder, LeaseOwnership
from sharebroker_server.leases.port import LeasesUnavailable
from sharebroker_server.persister.batching import WriteBatcher
from sharebroker_server.persister.port import LogStates, Persister
from sharebroker_server.record_log.core.producers import Verified
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.share_partition_leader.core.backoff import RetryBackoff
from sharebroker_server.share_partition_leader.core.events import Configure, SharePartitionSettings
from sharebroker_server.share_partition_leader.core.locks import tokens_of
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition, relinquished
from sharebroker_server.share_partition_leader.metrics.counters import CounterRegistry
from sharebroker_server.share_partition_leader.share_partition.reading import (
    is_changed,
    load_state,
    share_key,
)
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from sharebroker_server.stream_log.port import LogError
from sharebroker_server.telemetry.metrics import Histogram
from sharebroker_server.upstream_log.upstream_log import UpstreamLog

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from sharebroker_server.record_log.appends import Appended
    from sharebroker_server.record_log.core.batch import Buffer
    from sharebroker_server.share_partition_leader.tracing.partition_traces import (
        LeaderTraces,
        PartitionTraces,
    )
    from sharebroker_server.upstream_log.sessions import UpstreamLogs


_log = structlog.get_logger()

T = TypeVar("T")

LONGEST_RETRY_DELAY: Final = 2.0
"""Seconds, the longest delay before a retry."""

LOADS_AT_ONCE: Final = 100
"""Share-partitions that one fetch or stream loads at the same time."""

CATALOG_LAG: Final = 0.3
"""Seconds in which a new topic reaches every metadata cache."""

MOST_CLIENTS: Final = 10_000
"""The most client ids that are stored."""

LONGEST_CLIENT_ID: Final = 255
"""Characters of a client id that are stored."""

MOST_ENDED_SESSIONS: Final = 10_000
"""The most ended sessions that are stored: enough for the longest wait of a fetch."""


class Leadership:
    """The led partitions by topic id and number; a callback of the lease holder adds and removes them."""

    def __init__(
        self,
        holder: LeaseHolder,
        store: RecordStore,
        persister: Persister,
        catalog: MetadataCache,
        states: LogStates,
        upstream: UpstreamLogs | None = None,
    ) -> None:
        self.ended_sessions: dict[str, None] = {}
        """Share sessions that ended recently: a fetch in flight must not acquire records for them."""
        self.clients: dict[tuple[str, str], str] = {}
        """The client ids of members that acquire here, by group and member id; see `add_client`."""
        self.archiving: Callable[[ShareGroupPartition], None] = _ignore
        """Called with a share-partition that has archiving records: they need dead letters."""
        self.unsent_bytes = 0
        """Bytes of record batches that were acquired for delivery streams and are not yet sent."""
        self._holder = holder
        self._store = store
        self._persister = persister
        self._catalog = catalog
        self._states = states
        self._upstream = upstream
        self._led: dict[tuple[str, int], LedPartition] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._room = 0
        self.counters = CounterRegistry(lambda: self.broker.metrics_max_share_partitions)
        self.load_time = Histogram()
        self._writes = WriteBatcher(persister)
        self._traces = _leader_traces()
        holder.register("partition", tuple, "share-partition-leader", self._acquired, self._lost)

    def add_client(self, member: tuple[str, str], client_id: str) -> None:
        """Stores the client id of a member, for its dead letters; drops the oldest above MOST_CLIENTS."""
        self.clients[member] = client_id[:LONGEST_CLIENT_ID]
        if len(self.clients) > MOST_CLIENTS:
            del self.clients[next(iter(self.clients))]

    def known(self, topic_id: str, partition: int) -> LedPartition | None:
        """Returns the partition if it is open and its lease is held."""
        led = self._led.get((topic_id, partition))
        return led if led is not None and self._holder.holds(led.log.partition) is not None else None

    async def led(self, topic_id: str, partition: int) -> LedPartition:
        """Returns the partition, claimed and opened if necessary.

        Raises KafkaError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
        LEADER_NOT_AVAILABLE, KAFKA_STORAGE_ERROR.
        """
        led = self.known(topic_id, partition)
        if led is not None:
            return led
        topic = await self._topic(topic_id)
        if not 0 <= partition < topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {topic.name} has partitions 0 to {topic.partitions - 1}, not {partition}.",
            )
        try:
            lease = await self._holder.acquire(names.partition(topic_id, partition))
        except LeasesUnavailable as error:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"The lease cannot be claimed: {error}", retry_after=0.5
            ) from error
        led = self._led.get((topic_id, partition))
        if lease.owner != self._holder.member.owner or led is None:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Partition {partition} of {topic.name} is led by another process.",
                metadata={"leader": lease.owner},
            )
        return led

    def loaded(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition | None:
        """Returns the share-partition if it is loaded; it cannot retire before the next `await`."""
        led = self.known(topic_id, partition)
        return None if led is None else led.ready.get(group_id)

    async def share_partition(self, group_id: str, topic_id: str, partition: int) -> ShareGroupPartition:
        """Returns a group's share-partition, loaded; it cannot retire before the next `await`.

        Raises KafkaError, as `led` and the persister do.
        """
        while True:
            led = await self.led(topic_id, partition)
            task = led.groups.get(group_id)
            if task is None or task.cancelled():
                self._check_room()
                task = led.groups[group_id] = asyncio.create_task(self._load(led, group_id))
                task.add_done_callback(partial(self._loaded, led, group_id))
            if not task.done():
                # Loading is not cancelled with this caller: others may wait for it.
                await asyncio.wait([task])
            if not task.cancelled() and not task.result().retired:
                return task.result()

    def release_member(
        self,
        group_id: str,
        member_id: str,
        partitions: Set[tuple[str, int]],
        session_id: str = "",
        principal: str | None = None,
    ) -> int:
        """Releases what a member, or one of its sessions, holds here; returns in how many partitions.

        No partitions: all of them. With `principal`, only what it acquired as this member.
        """
        if session_id:  # first: the release wakes fetches of this session
            if len(self.ended_sessions) >= MOST_ENDED_SESSIONS:
                del self.ended_sessions[next(iter(self.ended_sessions))]
            self.ended_sessions[session_id] = None
        found = [led.ready[group_id] for led in self._named(partitions) if group_id in led.ready]
        for share_partition in found:
            share_partition.release_member(member_id, session_id, principal)
        return len(found)

    async def forget_group(self, group_id: str, partitions: Set[tuple[str, int]]) -> int:
        """Retires a group's share-partitions whose stored state changed; returns how many were loaded.

        The request may be late: a share-partition that was loaded after the change keeps its locks.
        """
        loaded = [led for led in self._named(partitions) if group_id in led.groups]
        await asyncio.gather(*(self._forget_changed(led, led.groups[group_id], group_id) for led in loaded))
        return len(loaded)

    async def _forget_changed(
        self, led: LedPartition, task: asyncio.Task[ShareGroupPartition], group_id: str
    ) -> None:
        if not _succeeded(task):
            task.cancel()
            return
        loaded, key = task.result(), share_key(group_id, led.log)
        if await is_changed(self._persister, key, loaded.core.loaded_state.loaded_under):
            loaded.retire()

    def metadata_changed(self, record: CatalogRecord) -> None:
        """Applies a catalog record: changed settings, and deleted topics, whose logs are removed."""
        if isinstance(record, TopicDeletedRecord):
            task = asyncio.create_task(self._remove(record))
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)
        elif isinstance(record, TopicRecord):
            self._topic_changed(record.topic)
        elif isinstance(record, PartitionsRecord):
            self._topic_changed(self._catalog.topic_by_id(record.topic_id))
        elif isinstance(record, ConfigRecord):
            self._settings_changed(record.resource)
        elif isinstance(record, ClusterRecord):  # the level of share.version
            self._settings_changed(ConfigResource(ResourceType.BROKER, ""))

    async def recheck(self) -> None:
        """Verifies every log against the store. Raises LogUnavailable."""
        await asyncio.gather(*(led.log.recheck() for led in self.partitions()))

    def partitions(self) -> list[LedPartition]:
        """All led partitions."""
        return list(self._led.values())

    async def remove_leftovers(self) -> None:
        """Removes logs of topics that were deleted while their leader was down."""
        try:
            kept = await self._store.partitions()
        except LogError as error:
            _log.info("removal of deleted topics postponed", reason=str(error))
            return
        for resource in kept:
            topic_id, _ = names.topic_partition(resource)
            if self._catalog.is_deleted(topic_id):
                await self._removed(resource)

    @property
    def broker(self) -> BrokerConfig:
        """The effective broker config."""
        return self._catalog.broker

    def drop_unused(self) -> None:
        """Retires share-partitions without members, locks and pending writes."""
        for share_partition in self._loaded_everywhere():
            share_partition.drop_unused()

    async def close(self) -> None:
        """Relinquishes every partition, after its writes."""
        for task in self._removals:
            task.cancel()
        losing = [self._lost(led.log.partition) for led in self.partitions()]
        await asyncio.gather(*self._removals, *losing, return_exceptions=True)

    def _named(self, partitions: Set[tuple[str, int]]) -> list[LedPartition]:
        if not partitions:
            return self.partitions()
        named = map(self._led.get, partitions)
        return [led for led in named if led is not None]

    def _loaded_everywhere(self) -> list[ShareGroupPartition]:
        return [loaded for led in self._led.values() for loaded in led.loaded()]

    # Leases

    async def _acquired(self, resource: str, epoch: int) -> None:
        topic_id, partition = names.topic_partition(resource)
        topic = await self._topic(topic_id)
        log = await self._opened(topic, partition, resource, epoch)
        try:
            topic = await self._topic(topic_id)  # it may have been changed or deleted meanwhile
        except KafkaError:
            await log.close()
            raise
        led = LedPartition(topic, log, tokens_of(epoch), self.archiving)
        led.configure(topic, self._log_settings(topic))
        if self._traces is not None:
            led.traces = self._traces.of(topic.name, partition, log.records_end_offset)
        log.on_append.append(led.wake)
        if isinstance(log, UpstreamLog):
            log.on_truncated.append(led.retire_all)
        elif topic.state_in_log:
            self._states.open(log)
        self._led[topic_id, partition] = led

    async def _opened(
        self, topic: Topic, partition: int, resource: str, epoch: int
    ) -> PartitionLog | UpstreamLog:
        lease = LeaseOwnership(self._holder, resource)
        if not topic.upstream:
            return await PartitionLog.open(resource, epoch, self._store, lease, self._log_settings(topic))
        if self._upstream is None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The records of topic {topic.name} are in another cluster, and this process has no --log.",
            )
        kafkas_id = "" if is_own_id(topic.topic_id) else topic.topic_id
        return await self._upstream.open(resource, epoch, topic.name, kafkas_id, partition, lease)

    async def _lost(self, resource: str) -> None:
        """Ends the work on a partition; on a hand-over the lease is kept until this returns."""
        led = self._led.pop(names.topic_partition(resource), None)
        if led is None:
            return
        loading = [*(task for task in led.groups.values() if not task.done()), *led.verifications.values()]
        for task in loading:  # `gather` starts `end` a turn later, when a load may have completed
            task.cancel()
        stopping = [loaded.stop() for loaded in led.loaded()]
        await asyncio.gather(end(loading), *stopping, return_exceptions=True)
        await self._states.close(resource)
        await led.log.close()
        led.wake_readers()

    # Topics

    async def _topic(self, topic_id: str) -> Topic:
        """Returns the topic; waits for one that the metadata cache does not have yet."""
        catalog = self._catalog
        if catalog.topic_by_id(topic_id) is None and not catalog.is_deleted(topic_id):
            with contextlib.suppress(KafkaError):
                await catalog.wait_for(lambda seen: seen.topic_by_id(topic_id) is not None, CATALOG_LAG)
        topic = catalog.topic_by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with id {topic_id}.")
        return topic

    def _topic_changed(self, topic: Topic | None) -> None:
        if topic is None:  # deleted since
            return
        settings = self._log_settings(topic)
        for index in range(topic.partitions):
            led = self._led.get((topic.topic_id, index))
            if led is not None:
                led.configure(topic, settings)

    def _settings_changed(self, resource: ConfigResource) -> None:
        if resource.type is ResourceType.TOPIC:
            self._topic_changed(self._catalog.topic(resource.name))
            return
        defaults = resource.type is ResourceType.BROKER
        for led in self._led.values() if defaults else ():
            led.configure(led.topic, self._log_settings(led.topic))
        for share_partition in self._loaded_everywhere():
            if defaults or share_partition.group_id == resource.name:
                share_partition.handle(Configure(self._group_settings(share_partition.group_id)))
                share_partition.check_backoff()

    def _group_settings(self, group_id: str) -> SharePartitionSettings:
        catalog = self._catalog
        level = catalog.features.get(SHARE, 0)
        return share_partition_settings(catalog.group_config(group_id), self.broker, level)

    def _log_settings(self, topic: Topic) -> LogSettings:
        return LogSettings.of_topic(self._catalog.topic_config(topic))

    async def _remove(self, deleted: TopicDeletedRecord) -> None:
        remaining = [names.partition(deleted.topic_id, index) for index in range(deleted.partitions)]
        while True:
            remaining = [resource for resource in remaining if not await self._removed(resource)]
            if not remaining:
                return
            await asyncio.sleep(LONGEST_RETRY_DELAY)

    async def _removed(self, resource: str) -> bool:
        """Removes a log if this process leads it; returns False if that has to be retried."""
        holder = self._holder
        try:
            owner = await holder.owner_of(resource)
            if owner is None:  # its last owner died, and the lease has not expired
                return False
            if owner.owner == holder.member.owner:
                await self._lost(resource)
                await self._store.delete(resource)
                await holder.drop(resource)
        except (LeasesUnavailable, LogError) as error:
            _log.info("removal of a deleted topic's log postponed", log=resource, reason=str(error))
            return False
        return True

    # Share-partitions

    def _check_room(self) -> None:
        """Enforces `group.share.max.share.partitions`.

        Counts them only when as many were loaded as there was room for: others may have retired since.
        """
        if self._room <= 0:
            most = self.broker.group_share_max_share_partitions
            self.drop_unused()
            self._room = most - sum(len(led.groups) for led in self._led.values())
            if self._room <= 0:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"This broker has {most} share-partitions loaded, the most that are allowed.",
                )
        self._room -= 1

    def stored_now_ms(self) -> float:
        """Returns the time in ms by the clock of Redis, by which records are delivered."""
        return (now() - self._holder.clock_skew) * 1000

    async def _load(self, led: LedPartition, group_id: str) -> ShareGroupPartition:
        started = monotonic()
        catalog, persister = self._catalog, self._persister
        epoch = led.log.epoch
        try:
            state = await load_state(persister, led.log, group_id, catalog.group_config(group_id))
            # The persister repeats a read whose gRPC call failed as it was cancelled (see `end`).
            if self._led.get(names.topic_partition(led.log.partition)) is not led:
                raise relinquished()
            if led.log.loses_records and led.log.epoch != epoch:  # a truncation: see `retire_all`
                raise relinquished()
            state = replace(state, clock_offset_ms=-1000 * self._holder.clock_skew)
            # Read again: the config may have changed while the state was read.
            settings = self._group_settings(group_id)
            counts = self.counters.get(group_id, led.topic.name, self._loaded_everywhere)
            core = SharePartition(settings, state, led.tokens, counts)
        except KafkaError:
            raise
        except Exception as error:
            _log.exception("stored share state is invalid", group=group_id, log=led.log.partition)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        shard = persister.shard(share_key(group_id, led.log))
        made = led.ready[group_id] = ShareGroupPartition(led, group_id, core, self._writes, shard)
        made.count_deleted(led.log.log_start_offset)
        made.check_backoff()
        self.load_time.add_seconds(monotonic() - started)
        return made

    def _loaded(self, led: LedPartition, group_id: str, task: asyncio.Task[ShareGroupPartition]) -> None:
        if not _succeeded(task) and led.groups.get(group_id) is task:
            del led.groups[group_id]


def share_partition_settings(
    config: GroupConfig, broker: BrokerConfig, level: int = 1
) -> SharePartitionSettings:
    """Returns a group's configuration for the core; durations in seconds.

    `level` is that of share.version.
    """
    return SharePartitionSettings(
        delivery_count_limit=config.share_delivery_count_limit,
        lock_duration=config.share_record_lock_duration_ms / 1000,
        max_lock=broker.group_share_max_lock_ms / 1000,
        max_record_locks=config.share_partition_max_record_locks,
        max_runs=broker.group_share_partition_max_runs,
        max_archiving=broker.share_partition_max_archiving_records,
        renew_enabled=config.share_renew_acknowledge_enable,
        read_committed=config.share_isolation_level == "read_committed",
        releases_count=config.share_delivery_count_on == "acquisition",
        max_record_age=config.share_record_max_age_ms / 1000,
        paused=config.share_paused,
        longest_journal=config.share_failed_records_max,
        dead_letters=level >= DEAD_LETTERS and bool(config.errors_deadletterqueue_topic_name),
        backoff=_retry_backoff(config, broker),
    )


def _retry_backoff(config: GroupConfig, broker: BrokerConfig) -> RetryBackoff | None:
    first_ms = config.share_retry_backoff_ms
    if not first_ms:
        return None
    return RetryBackoff(
        first_ms,
        config.share_retry_backoff_multiplier,
        config.share_retry_backoff_max_ms or 100 * first_ms,
        config.share_retry_backoff_jitter,
        frozenset(config.share_retry_backoff_on.split(",")),
        broker.group_share_max_retry_delay_ms,
    )


def _leader_traces() -> LeaderTraces | None:
    """Returns the traces of this process; None if it does not trace."""
    if tracing.on is None:
        return None
    # OpenTelemetry is imported only in a process that traces.
    from sharebroker_server.share_partition_leader.tracing.partition_traces import LeaderTraces

    return LeaderTraces(tracing.on, monotonic)


def _ignore(share_partition: ShareGroupPartition) -> None:
    """Leaves the archiving records of a share-partition as they are."""


def _succeeded(task: asyncio.Task[T]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


@dataclass(slots=True, eq=False)
class LedPartition:
    """A partition's log and its share-partitions. Owners of records use `own_log`.

    `groups` are the tasks that load share-partitions, by group; `ready` are those that are loaded and not
    retired. `archiving` is called with those that have archiving records. `readers` are long polls without a
    group. `verifications` are requests to transaction coordinators, by producer id and epoch. `traces` is
    None if this process does not trace.
    """

    topic: Topic
    log: PartitionLog | UpstreamLog
    tokens: Iterator[int]
    archiving: Callable[[ShareGroupPartition], None]
    groups: dict[str, asyncio.Task[ShareGroupPartition]] = field(default_factory=dict)
    ready: dict[str, ShareGroupPartition] = field(default_factory=dict)
    readers: set[asyncio.Event] = field(default_factory=set)
    verifications: dict[tuple[int, int], asyncio.Task[Verified]] = field(default_factory=dict)
    traces: PartitionTraces | None = None

    @property
    def partition(self) -> int:
        """The partition number."""
        return names.topic_partition(self.log.partition)[1]

    @property
    def own_log(self) -> PartitionLog:
        """The log of a partition whose records are in this cluster.

        Raises:
            KafkaError: POLICY_VIOLATION if they are in another one, whose records only its clients change.
        """
        if isinstance(self.log, PartitionLog):
            return self.log
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The records of topic {self.topic.name} are in another Kafka cluster. Send the request there.",
        )

    def configure(self, topic: Topic, settings: LogSettings) -> None:
        """Applies changes of the topic."""
        self.topic = topic
        if isinstance(self.log, PartitionLog):
            self.log.settings = settings

    def retire_all(self) -> None:
        """Ends all share-partitions, because the log lost records; the next use loads what is left."""
        for task in [*self.groups.values()]:
            if not task.done():
                task.cancel()
        for share_partition in self.loaded():
            share_partition.retire()

    def traced(self, records: Buffer, append: Coroutine[Any, Any, Appended]) -> Coroutine[Any, Any, Appended]:
        """Returns `append`, an append of these records, with spans for those that are traced."""
        traces = self.traces
        found = traces.find(records) if traces is not None else ()
        return append if traces is None or not found else traces.append(found, append)

    def forget(self, share_partition: ShareGroupPartition) -> None:
        """Removes a share-partition that retires."""
        self.groups.pop(share_partition.group_id, None)
        self.ready.pop(share_partition.group_id, None)

    def loaded(self) -> list[ShareGroupPartition]:
        """The share-partitions that are ready."""
        return list(self.ready.values())

    def wake(self) -> None:
        """Notifies listeners and long polls that records were appended or deleted."""
        for share_partition in self.loaded():
            share_partition.wake()
        self.wake_readers()

    def wake_readers(self) -> None:
        """Notifies long polls that the log has grown, or was relinquished."""
        for reader in self.readers:
            reader.set()
