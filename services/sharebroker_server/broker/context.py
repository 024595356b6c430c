"""The broker context: what all roles of a process share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from sharebroker_protocol.cancellation import end
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.node_identity import node_identity
from sharebroker_server.broker.observability import Observability
from sharebroker_server.broker.redis_connections import open_redis
from sharebroker_server.broker.redis_incarnation import StateVerifier, VerifyState
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.broker.storage import Storage, open_storage
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.cluster.router import Router, in_the_clear
from sharebroker_server.coordinator_runtime.metrics import AnyHost
from sharebroker_server.gateway.kafka.connection.listener import KafkaServer
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.membership import FailureDetector
from sharebroker_server.leases.port import LeaseStore, Member
from sharebroker_server.persister.default import DefaultPersister
from sharebroker_server.persister.no_op import NoOpPersister
from sharebroker_server.record_log.port import RecordStore
from sharebroker_server.redis_link.keys import Keys
from sharebroker_server.rpc.tls import Tls
from sharebroker_server.stream_log.port import LogUnavailable, StreamLog
from sharebroker_server.telemetry.process import release


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """Shared by the roles of one process.

    The callables in `drains` end streams before the server stops. Those in `rechecks` compare the memory with
    a Redis that may have lost writes. `hosts` are the hosts of the coordinators' shards.
    """

    settings: ServeSettings
    storage: Storage
    holder: LeaseHolder
    catalog: MetadataCache
    router: Router
    persister: DefaultPersister | NoOpPersister
    kafka: KafkaServer | None
    drains: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    rechecks: list[VerifyState] = field(default_factory=list)
    observability: Observability = field(default_factory=Observability)
    hosts: list[AnyHost] = field(default_factory=list)

    @property
    def keys(self) -> Keys:
        """Names of the keys in Redis."""
        return self.storage.keys

    @property
    def log(self) -> StreamLog:
        """The stream logs."""
        return self.storage.log

    @property
    def records(self) -> RecordStore:
        """The record logs."""
        return self.storage.records

    @property
    def leases(self) -> LeaseStore:
        """The lease store."""
        return self.storage.leases

    def most_series(self) -> int:
        """Returns the number of share-partitions with metrics of their own."""
        return self.catalog.broker.metrics_max_share_partitions


@dataclass(frozen=True, slots=True)
class Listeners:
    """The Kafka listener, if the broker has one, and the TLS settings of all listeners, if they use TLS."""

    kafka: KafkaServer | None
    tls: Tls | None


async def build_context(
    settings: ServeSettings,
    address: str,
    listeners: Listeners,
    observability: Observability,
    stack: AsyncExitStack,
) -> BrokerContext:
    """Builds the context of a broker whose peers connect to `address`; `stack` closes it.

    Raises KafkaError INVALID_CONFIG with one sentence for the operator.
    """
    redis = await open_redis(settings, stack)
    observability.observe_redis(redis.by_purpose)
    keys = Keys.of_cluster(settings.config.cluster_id)
    storage = open_storage(redis, keys, observability.appends)
    identity = node_identity(settings, address)
    settings = replace(settings, config=replace(settings.config, node_id=identity.node_id))
    catalog = MetadataCache(storage.log, settings.config)
    kafka_address = listeners.kafka.address if listeners.kafka else ""
    member = Member(identity.owner, identity.node_id, settings.roles, address, kafka_address, release())
    ttl = settings.config.broker_session_timeout_ms / 1000
    detector = FailureDetector(storage.leases, ttl)
    holder = LeaseHolder(
        storage.leases, member, ttl, failure_detector=detector, partitions=catalog.partitions
    )
    try:
        await catalog.start()
    except LogUnavailable as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"The catalog cannot be read: {error}") from error
    stack.push_async_callback(catalog.stop)
    rechecks: list[VerifyState] = [catalog.recheck]
    stack.push_async_callback(StateVerifier({redis.reads, redis.writes}, rechecks).stop)
    router = _router(settings, holder, listeners.tls, stack)
    return BrokerContext(
        settings,
        storage,
        holder,
        catalog,
        router,
        _persister(settings.config.group_share_persister_class_name, router),
        listeners.kafka,
        rechecks=rechecks,
        observability=observability,
    )


def _persister(class_name: str, router: Router) -> DefaultPersister | NoOpPersister:
    """Returns the persister that `group.share.persister.class.name` names."""
    return NoOpPersister() if class_name.endswith("NoOpStatePersister") else DefaultPersister(router)


def _router(settings: ServeSettings, holder: LeaseHolder, tls: Tls | None, stack: AsyncExitStack) -> Router:
    router = Router(
        holder,
        holder.member.owner,
        group_shards=settings.config.offsets_topic_num_partitions,
        share_shards=settings.config.share_coordinator_state_topic_num_partitions,
        transaction_shards=settings.config.transaction_state_log_num_partitions,
        dial=in_the_clear if tls is None else tls.channel,
    )
    stack.push_async_callback(router.close)
    if tls is not None:
        tls.changed.append(router.redial)
        stack.push_async_callback(end, [asyncio.create_task(tls.watch(), name="TLS files")])
    return router
