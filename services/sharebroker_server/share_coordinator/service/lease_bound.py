"""Reads of share state that raise the leader epoch, at most to the epoch of the partition's lease."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.leases import names
from sharebroker_server.leases.port import LeaseStore, LeasesUnavailable
from sharebroker_server.share_coordinator.core import commands as c
from sharebroker_server.share_coordinator.core.state import ShareRecord

_RETRY_AFTER: Final = 0.2


async def read_within_lease(
    shard: ShardRuntime[c.Command, ShareRecord, c.Reply], leases: LeaseStore, read: c.Read
) -> c.Reply:
    """Submits a read; if it raises the leader epoch, reads the lease and submits it again.

    The lease is not read for a leader that the state already names. Raises the errors of the shard, and
    COORDINATOR_NOT_AVAILABLE if the lease cannot be read.
    """
    reply = await shard.submit(read)
    if not isinstance(reply, c.LeaseRequired):
        return reply
    return await shard.submit(read._replace(lease_epoch=await _lease_epoch(leases, read.key)))


async def _lease_epoch(leases: LeaseStore, key: SharePartitionKey) -> int:
    try:
        [lease] = await leases.read([names.partition(key.topic_id, key.partition)])
    except LeasesUnavailable as error:
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"The partition's lease cannot be read: {error}",
            retry_after=_RETRY_AFTER,
        ) from error
    return c.NO_LEASE if lease is None else lease.epoch
