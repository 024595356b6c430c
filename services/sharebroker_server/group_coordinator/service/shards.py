"""The shards of groups and of transactional ids in this process.

Start each host with the lease holder and with `perform` of its servicer.
"""

from __future__ import annotations

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
