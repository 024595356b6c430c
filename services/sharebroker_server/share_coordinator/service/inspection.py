"""Compares a share-partition's state in the shard's log with its state in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.coordinator_runtime.lifecycle import REPAIR
from sharebroker_server.coordinator_runtime.shard import ShardRuntime
from sharebroker_server.share_coordinator.core.checkpointing import CheckpointRules
from sharebroker_server.share_coordinator.core.commands import Command, Inspect, Inspection, Reply
from sharebroker_server.share_coordinator.core.machine import ShareCoordinatorMachine
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    ShareCheckpoint,
    ShareRecord,
    ShareState,
)
from sharebroker_server.share_coordinator.service.messages import log_record, state_record
from sharebroker_server.stream_log.port import LogUnavailable

if TYPE_CHECKING:
    from sharebroker_server.record_log.core.share_index import ShareIndex

Shard = ShardRuntime[Command, ShareRecord, Reply]
Entries = list[tuple[int, ShareRecord]]

_ATTEMPTS: Final = 3
"""Attempts: a checkpoint may be written, and the previous one trimmed, between reading memory and log."""


async def inspect(
    shard: Shard, key: SharePartitionKey, stored: Callable[[], Awaitable[Entries]] | None = None
) -> pb.InspectShareGroupStateResponse:
    """Returns the records, the replayed state and the state in memory.

    `stored` returns the records that are needed, with their offsets, if a partition's log has them.

    Raises:
        KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, CORRUPT_MESSAGE.
    """
    for _ in range(_ATTEMPTS):
        live = cast("Inspection", await shard.submit(Inspect(key)))
        entries = await (_entries(shard, key, live) if stored is None else stored())
        replayed = _replay(key, entries)
        if stored is not None and replayed is not None and live.state is not None:
            # In memory a position is a number since the load.
            replayed.checkpoint_position = live.state.checkpoint_position
        if replayed == live.state:
            break
    return pb.InspectShareGroupStateResponse(
        records=[log_record(position, record) for position, record in entries],
        folded=None if replayed is None else state_record(replayed),
        consistent=replayed == live.state,
        live=None if live.state is None else state_record(live.state),
    )


def checkpoint_offsets(index: ShareIndex, group_id: str) -> pb.InspectShareGroupStateResponse:
    """Returns the offsets of the group's newest checkpoint and of the lowest one; absent without state."""
    return pb.InspectShareGroupStateResponse(
        share_checkpoint_offset=index.checkpoint_offset(group_id), earliest_share_offset=index.earliest()
    )


async def _entries(shard: Shard, key: SharePartitionKey, live: Inspection) -> Entries:
    """Returns the latest checkpoint or its tombstone and the key's later records, up to the live position."""
    entries: Entries = []
    after = live.state.checkpoint_position - 1 if live.state else 0
    while page := await _page(shard, after):
        for position, record in page:
            if record.key != key or position > live.last_position:
                continue
            if isinstance(record, ShareCheckpoint | CheckpointTombstone):
                entries = []
            entries.append((position, record))
        after = page[-1][0]
    return entries


async def _page(shard: Shard, after: int) -> Entries:
    try:
        return await shard.read(after)
    except LogUnavailable as error:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the log cannot be read: {error}") from error
    except ValueError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{shard.shard}: {error}{REPAIR}") from error


def _replay(key: SharePartitionKey, entries: Entries) -> ShareState | None:
    machine = ShareCoordinatorMachine(CheckpointRules())
    for position, record in entries:
        machine.apply(record, position)
    return cast("Inspection", machine.decide(Inspect(key), 0.0).reply).state
