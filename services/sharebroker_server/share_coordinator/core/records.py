"""Durable records of a share-partition's state (seed 004: checkpoints, deltas and their tombstones).

Times are milliseconds since the Unix epoch; 0 where a record was written before its kind kept one.
"""

from __future__ import annotations

from typing import NamedTuple

from sharebroker_protocol.model import SharePartitionKey, StateBatch


class ShareCheckpoint(NamedTuple):
    """The whole state; its two times differ after a cold checkpoint."""

    key: SharePartitionKey
    checkpoint_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    state_batches: tuple[StateBatch, ...]


class ShareDelta(NamedTuple):
    """A change on top of the checkpoint of the same epoch.

    `delta_index` belongs to the key. -1 as leader epoch or start offset means not changed; the delivery
    complete count always replaces the one before.
    """

    key: SharePartitionKey
    delta_index: int
    checkpoint_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: tuple[StateBatch, ...]
    write_timestamp_ms: int = 0


class CheckpointTombstone(NamedTuple):
    """The share-partition is being deleted; its deltas count no more, their tombstones follow."""

    key: SharePartitionKey
    write_timestamp_ms: int = 0


class DeltaTombstone(NamedTuple):
    """A delta's key holds nothing from here on."""

    key: SharePartitionKey
    delta_index: int
    write_timestamp_ms: int = 0


ShareRecord = ShareCheckpoint | ShareDelta | CheckpointTombstone | DeltaTombstone
