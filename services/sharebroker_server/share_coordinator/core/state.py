"""The state of one share-partition in the coordinator's memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.combine import combine_into
from sharebroker_server.share_coordinator.core.records import ShareCheckpoint, ShareDelta


@dataclass(slots=True)
class ShareState:
    """The replayed state of a share-partition, and the position of its latest checkpoint in the shard's log.

    `delta_indices` are the indices written since that checkpoint; each needs a tombstone when the state is
    deleted. `last_delta_index` is where the sequence continues. It is not compared: once the deltas of
    earlier checkpoints are trimmed, the sequence may restart.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    runs: list[StateBatch]
    checkpoint_epoch: int
    checkpoint_position: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    last_delta_index: int = field(default=-1, compare=False)
    delta_indices: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, checkpoint: ShareCheckpoint, position: int, last_delta_index: int) -> ShareState:
        """Returns the state of a checkpoint at `position`; indices continue after `last_delta_index`."""
        return cls(
            checkpoint.state_epoch,
            checkpoint.leader_epoch,
            checkpoint.start_offset,
            checkpoint.delivery_complete_count,
            list(checkpoint.state_batches),
            checkpoint.checkpoint_epoch,
            position,
            checkpoint.create_timestamp_ms,
            checkpoint.write_timestamp_ms,
            last_delta_index,
        )

    @property
    def cold(self) -> bool:
        """Returns whether the latest checkpoint is a cold one."""
        return self.create_timestamp_ms != self.write_timestamp_ms

    def apply(self, delta: ShareDelta) -> None:
        """Applies a delta of this checkpoint epoch."""
        if delta.leader_epoch >= 0:
            self.leader_epoch = delta.leader_epoch
        if delta.start_offset >= 0:
            self.start_offset = delta.start_offset
        self.delivery_complete_count = delta.delivery_complete_count
        self.last_delta_index = delta.delta_index
        self.delta_indices.append(delta.delta_index)
        combine_into(self.runs, delta.state_batches, self.start_offset)


@dataclass(slots=True)
class Deletion:
    """A deletion with unwritten delta tombstones; the deltas follow `checkpoint_position`."""

    checkpoint_position: int
    delta_indices: list[int]


States = OrderedDict[SharePartitionKey, ShareState]
"""All keys of a shard, ordered by the position of their latest checkpoint, oldest first."""
