"""Durable records of a share-partition's state: checkpoints, deltas and their tombstones (seed 004).

Times are milliseconds since the Unix epoch; 0 in records written before their kind had a time.
"""

from __future__ import annotations

from typing import NamedTuple

from sharebroker_protocol.model import SharePartitionKey, StateBatch


class ShareCheckpoint(NamedTuple):
    """The complete state; the two times differ in a cold checkpoint."""

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
    """A change to the checkpoint of the same epoch.

    `delta_index` is part of the key. A leader epoch or start offset of -1 means unchanged. The delivery
    complete count always replaces the previous one.
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
    """The share-partition is being deleted; its deltas no longer count, and their tombstones follow."""

    key: SharePartitionKey
    write_timestamp_ms: int = 0


class DeltaTombstone(NamedTuple):
    """Deletes the delta of this key and index."""

    key: SharePartitionKey
    delta_index: int
    write_timestamp_ms: int = 0


ShareRecord = ShareCheckpoint | ShareDelta | CheckpointTombstone | DeltaTombstone
