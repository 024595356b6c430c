"""A share-partition's durable state: loaded when it is first used, written as it changes."""

from __future__ import annotations

from collections.abc import Sequence

from sharebroker_protocol.clock import now
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateWrite
from sharebroker_server.config.group import GroupConfig
from sharebroker_server.leases import names
from sharebroker_server.persister.port import Persister
from sharebroker_server.record_log.partition_log import PartitionLog
from sharebroker_server.share_partition_leader.core.in_flight import Transition
from sharebroker_server.share_partition_leader.core.values import LoadedState
from sharebroker_server.share_partition_leader.partition.state_writes import Turns, Writes

_SEEN_BY_CONSUMERS = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a consumer is told when the share coordinator refuses (Kafka: SharePartition.fetchPersisterError)."""


class NoStateError(KafkaError):
    """The group coordinator has not initialised the state, or deleted it: nobody holds records."""


async def load_state(
    persister: Persister, log: PartitionLog, group_id: str, config: GroupConfig
) -> LoadedState:
    """Reads the state and resolves `share.auto.offset.reset` where no start offset is set.

    Raises NoStateError with LEADER_NOT_AVAILABLE: the state may come soon; other KafkaErrors:
    OFFSET_NOT_AVAILABLE where no record is as young as `by_duration` asks, the persister's refusals.
    """
    try:
        state = await persister.read(share_key(group_id, log), log.epoch)
    except KafkaError as error:
        raise _translated(error, uninitialised=ErrorCode.LEADER_NOT_AVAILABLE) from error
    start = state.start_offset if state.start_offset >= 0 else await _reset(log, config)
    return LoadedState(state.state_epoch, log.epoch, start, state.batches)


async def is_changed(persister: Persister, key: SharePartitionKey, loaded_under: tuple[int, int]) -> bool:
    """Whether the stored state is another than was loaded under this state epoch and leader epoch.

    A state that was made anew has been loaded by no leader. False where nobody can tell: what is written on
    an old state is refused.
    """
    try:
        stored = await persister.read_summary(key)
    except KafkaError as error:
        return error.code is ErrorCode.INVALID_REQUEST
    state_epoch, leader_epoch = loaded_under
    return stored.state_epoch != state_epoch or stored.leader_epoch < leader_epoch


class PersistedState:
    """The stored state of one share-partition (`StateWriter`)."""

    __slots__ = ("_key", "_persister", "_shard", "_turns")

    def __init__(self, persister: Persister, turns: Turns, group_id: str, log: PartitionLog) -> None:
        self._persister = persister
        self._turns = turns
        self._key = share_key(group_id, log)
        self._shard = persister.shard(self._key)

    def due(self, writes: Writes) -> None:
        """See StateWriter."""
        self._turns.add(self._shard, self._key, writes)

    async def write(self, change: StateWrite, transitions: Sequence[Transition]) -> None:
        """See StateWriter."""
        try:
            await self._persister.write(self._key, change)
        except KafkaError as error:
            raise _translated(error, uninitialised=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from error


def share_key(group_id: str, log: PartitionLog) -> SharePartitionKey:
    """The key of a group's state of a log's partition."""
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


def _translated(error: KafkaError, *, uninitialised: ErrorCode) -> KafkaError:
    """INVALID_REQUEST from the coordinator means that there is no state: not yet, or no more."""
    if error.code is ErrorCode.INVALID_REQUEST:
        return NoStateError(
            uninitialised, "The group has no state of this partition.", metadata=error.metadata
        )
    code = _SEEN_BY_CONSUMERS.get(error.code, error.code)
    return KafkaError(code, error.message, metadata=error.metadata, retry_after=error.retry_after)
