"""Checks a command against the state of its share-partition (Kafka 4.4: ShareCoordinatorShard)."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import ErrorCode, FieldViolation, KafkaError
from sharebroker_protocol.model import SharePartitionKey, StateBatch
from sharebroker_server.share_coordinator.core.commands import Delete, Initialize, Read, Write
from sharebroker_server.share_coordinator.core.state import ShareState

DURABLE_STATES: Final = frozenset({0, 2, 3, 4})
"""Available, acknowledged, archiving (before a dead letter) and archived. Acquired (1) is never stored."""

_INT16_MAX: Final = 2**15 - 1


def check_initialize(command: Initialize, state: ShareState | None) -> None:
    """Raises INVALID_REQUEST or FENCED_STATE_EPOCH if the command is not permitted."""
    _check_epoch("state_epoch", command.state_epoch)
    _check_at_least("start_offset", command.start_offset, -1)
    if state is not None and state.state_epoch > command.state_epoch:
        raise _fenced_state(command.key, state.state_epoch, command.state_epoch)


def check_read(command: Read, state: ShareState | None) -> ShareState:
    """Returns the state to read; raises INVALID_REQUEST or FENCED_LEADER_EPOCH."""
    _check_epoch("leader_epoch", command.leader_epoch)
    if state is None:
        raise _not_initialized("Read", command.key)
    if state.leader_epoch > command.leader_epoch:
        raise _fenced_leader(command.key, state.leader_epoch, command.leader_epoch)
    return state


def check_write(command: Write, state: ShareState | None) -> ShareState:
    """Returns the state to change; raises INVALID_REQUEST, FENCED_LEADER_EPOCH or FENCED_STATE_EPOCH."""
    key, state_epoch, leader_epoch, start_offset, count, batches = command
    if state_epoch < 0 or leader_epoch < 0 or start_offset < -1 or count < -1:
        _check_epoch("state_epoch", state_epoch)
        _check_epoch("leader_epoch", leader_epoch)
        _check_at_least("start_offset", start_offset, -1)
        _check_at_least("delivery_complete_count", count, -1)
    for batch in batches:
        _check_batch(batch)
    if state is None:
        raise _not_initialized("Write", key)
    if state.leader_epoch > leader_epoch:
        raise _fenced_leader(key, state.leader_epoch, leader_epoch)
    if state.state_epoch > state_epoch:
        raise _fenced_state(key, state.state_epoch, state_epoch)
    return state


def check_delete(command: Delete, state: ShareState | None) -> None:
    """Raises INVALID_REQUEST or FENCED_STATE_EPOCH: a delayed deletion must not remove newer state."""
    key, epoch = command
    if epoch is None:
        return
    _check_epoch("state_epoch", epoch)
    if state is not None and state.state_epoch > epoch:
        raise _fenced_state(key, state.state_epoch, epoch)


def _check_batch(batch: StateBatch) -> None:
    first, last, state, count = batch
    if not (0 <= first <= last and state in DURABLE_STATES and 0 <= count <= _INT16_MAX):
        raise _invalid(
            "state_batches", f"{first}-{last} in state {state}, delivery count {count} is not legal"
        )


def _check_epoch(field: str, epoch: int) -> None:
    _check_at_least(field, epoch, 0)


def _check_at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise _invalid(field, f"must be {least} or more, not {value}")


def _invalid(field: str, description: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST, f"{field}: {description}", violations=[FieldViolation(field, description)]
    )


def _not_initialized(operation: str, key: SharePartitionKey) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"{operation} operation on uninitialized share partition not allowed.",
        metadata={"key": str(key)},
    )


def _fenced_leader(key: SharePartitionKey, stored: int, requested: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_LEADER_EPOCH,
        metadata={"key": str(key), "stored_leader_epoch": str(stored), "leader_epoch": str(requested)},
    )


def _fenced_state(key: SharePartitionKey, stored: int, requested: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_STATE_EPOCH,
        metadata={"key": str(key), "stored_state_epoch": str(stored), "state_epoch": str(requested)},
    )
