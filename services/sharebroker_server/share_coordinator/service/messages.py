"""Converts between RPC messages and the core's values (protos/sharebroker/share_coordinator/v1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sharebroker_protocol.model import StateBatch
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.share_coordinator.core.commands import ReadReply, Summary
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
    ShareState,
)

LogRecord = pb.InspectShareGroupStateResponse.LogRecord


def batches_in(batches: Iterable[pb.StateBatch]) -> tuple[StateBatch, ...]:
    """Returns the state batches of a request."""
    return tuple(
        StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches
    )


def batches_out(batches: Iterable[StateBatch]) -> list[pb.StateBatch]:
    """Returns the state batches of a response."""
    return [
        pb.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def read_fields(reply: ReadReply) -> dict[str, Any]:
    """Returns the partition fields of a Read response."""
    return {
        "state_epoch": reply.state_epoch,
        "start_offset": reply.start_offset,
        "state_batches": batches_out(reply.state_batches),
    }


def summary_fields(reply: Summary) -> dict[str, Any]:
    """Returns the partition fields of a ReadSummary response."""
    return {
        "state_epoch": reply.state_epoch,
        "leader_epoch": reply.leader_epoch,
        "start_offset": reply.start_offset,
        "delivery_complete_count": reply.delivery_complete_count,
    }


_KINDS: Final[Mapping[type, str]] = {
    ShareCheckpoint: "checkpoint",
    ShareDelta: "delta",
    CheckpointTombstone: "tombstone",
    DeltaTombstone: "tombstone",
}


def log_record(position: int, record: ShareRecord) -> LogRecord:
    """Returns the description of a record in the log."""
    fields = record._asdict()
    del fields["key"]  # the request contains it
    fields["state_batches"] = batches_out(fields.get("state_batches", ()))
    return LogRecord(position=position, kind=_KINDS[type(record)], **fields)


def state_record(state: ShareState) -> LogRecord:
    """Returns a state in the form of the checkpoint that would contain it."""
    return LogRecord(
        position=state.checkpoint_position,
        kind="checkpoint",
        checkpoint_epoch=state.checkpoint_epoch,
        start_offset=state.start_offset,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        delivery_complete_count=state.delivery_complete_count,
        state_batches=batches_out(state.runs),
        create_timestamp_ms=state.create_timestamp_ms,
        write_timestamp_ms=state.write_timestamp_ms,
    )
