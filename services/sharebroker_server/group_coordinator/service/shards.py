"""The shards of groups, of transactional ids and of the catalog in this process.

Start each host with the lease holder; those of groups and transactional ids also with `perform` of their
servicer.
"""

from __future__ import annotations

from sharebroker_server.catalog import machine as catalog
from sharebroker_server.catalog.metadata_cache import MetadataCache
from sharebroker_server.catalog.records import CatalogCodec, CatalogRecord
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.group_coordinator.config import GroupCoordinatorConfig
from sharebroker_server.group_coordinator.core import machine as groups
from sharebroker_server.group_coordinator.core.metadata_image import MetadataImage
from sharebroker_server.group_coordinator.core.transactions import commands, machine, model
from sharebroker_server.group_coordinator.store.codec import GroupCodec
from sharebroker_server.group_coordinator.store.transactions import TransactionCodec
from sharebroker_server.leases import names
from sharebroker_server.stream_log.port import StreamLog

Host = ShardHost[groups.Command, groups.Record, groups.Reply]
TransactionHost = ShardHost[commands.Command, model.Record, commands.Reply]
CatalogHost = ShardHost[catalog.CatalogCommand, CatalogRecord, catalog.CatalogReply]


def make_host(log: StreamLog, config: GroupCoordinatorConfig, view: MetadataImage) -> Host:
    """Returns the shards of groups."""
    return ShardHost(
        "group-coordinator",
        config.shards,
        log,
        lambda _: groups.GroupMachine(view),
        GroupCodec(),
        config.runtime,
    )


def make_transaction_host(
    log: StreamLog, config: GroupCoordinatorConfig, view: MetadataImage
) -> TransactionHost:
    """Returns the shards of transactional ids."""
    shards = config.transaction_shards
    return ShardHost(
        names.TRANSACTIONS,
        shards,
        log,
        lambda index: machine.TransactionMachine(model.ProducerIds(index, shards), view),
        TransactionCodec(),
        config.runtime,
    )


def make_catalog_host(log: StreamLog, config: GroupCoordinatorConfig, follower: MetadataCache) -> CatalogHost:
    """Returns the catalog's only shard; start it with the lease holder."""
    return ShardHost(
        catalog.SHARD,
        None,
        log,
        lambda _: catalog.CatalogMachine(follower.static),
        CatalogCodec(),
        config.runtime,
    )
