"""Loads the stored state of a share-partition, and translates the share coordinator's errors."""

from __future__ import annotations

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.leases import names
from sharebroker_server.persister.port import Persister
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.core.values import LoadedState

_SEEN_BY_CONSUMERS = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Errors of the share coordinator as consumers see them (Kafka: SharePartition.fetchPersisterError)."""


class NoStateError(KafkaError):
    """The group coordinator has not initialised the state, or deleted it: no member holds records."""


async def load_state(
    persister: Persister, log: PartitionLog, group_id: str, config: GroupConfig
) -> LoadedState:
    """Reads the state, and resolves `share.auto.offset.reset` if no start offset is set.

    Raises NoStateError with LEADER_NOT_AVAILABLE if the state is not initialised yet; other KafkaErrors:
    OFFSET_NOT_AVAILABLE if all records are older than `by_duration`, and the persister's errors.
    """
    try:
        state = await persister.read(share_key(group_id, log), log.epoch)
    except KafkaError as error:
        raise translated(error, ErrorCode.LEADER_NOT_AVAILABLE) from error
    start = state.start_offset if state.start_offset >= 0 else await _reset(log, config)
    return LoadedState(state.state_epoch, log.epoch, start, state.batches)


async def is_changed(persister: Persister, key: SharePartitionKey, loaded_under: tuple[int, int]) -> bool:
    """Whether the stored state differs from the one loaded under this state epoch and leader epoch.

    No leader has loaded a state that was initialised again. False if the coordinator cannot be reached:
    writes to an old state are fenced.
    """
    try:
        stored = await persister.read_summary(key)
    except KafkaError as error:
        return error.code is ErrorCode.INVALID_REQUEST
    state_epoch, leader_epoch = loaded_under
    return stored.state_epoch != state_epoch or stored.leader_epoch < leader_epoch


def share_key(group_id: str, log: PartitionLog) -> SharePartitionKey:
    """The key of a group's state of a partition."""
    return SharePartitionKey(group_id, *names.topic_partition(log.partition))


async def _reset(log: PartitionLog, config: GroupConfig) -> int:
    reset = config.offset_reset
    if reset.strategy == "earliest":
        return log.log_start_offset
    if reset.strategy == "latest":
        return log.log_end_offset
    found = await log.offset_for_timestamp(int(now() * 1000) - reset.duration_ms)
    if found is None:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE, f"No record is as young as {config.share_auto_offset_reset} asks."
        )
    return found.offset


def translated(
    error: KafkaError, uninitialised: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
) -> KafkaError:
    """Returns a share coordinator's error as consumers may see it.

    INVALID_REQUEST means that the state is not initialised or was deleted: `uninitialised`.
    """
    if error.code is ErrorCode.INVALID_REQUEST:
        return NoStateError(
            uninitialised, "The group has no state of this partition.", metadata=error.metadata
        )
    code = _SEEN_BY_CONSUMERS.get(error.code, error.code)
    return KafkaError(code, error.message, metadata=error.metadata, retry_after=error.retry_after)
