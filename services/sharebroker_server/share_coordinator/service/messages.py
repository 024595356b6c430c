"""Converts between RPC messages and the core's values (protos/sharebroker/share_coordinator/v1)."""

from __future__ import annotations

from typing import Any, Final

from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.persister.messages import FAILED_RECORDS, JOURNAL_UPDATE, STATE_BATCH
from sharebroker_server.proto_values import Conversion, Mapped
from sharebroker_server.share_coordinator.core.commands import (
    FailedReply,
    Initialize,
    ReadReply,
    SummaryReply,
    Write,
)
from sharebroker_server.share_coordinator.core.state import (
    CheckpointTombstone,
    DeltaTombstone,
    ShareCheckpoint,
    ShareDelta,
    ShareRecord,
    ShareState,
)

LogRecord = pb.InspectShareGroupStateResponse.LogRecord

_BATCHES: Final[dict[str, str | Mapped]] = {"state_batches": Mapped(nested=STATE_BATCH)}

INITIALIZE: Final = Conversion(Initialize, pb.InitializeShareGroupStateRequest.PartitionData)
WRITE: Final = Conversion(
    Write,
    pb.WriteShareGroupStateRequest.PartitionData,
    _BATCHES | {"failed": Mapped(nested=JOURNAL_UPDATE)},
)
READ_REPLY: Final = Conversion(ReadReply, pb.ReadShareGroupStateResponse.PartitionData, _BATCHES)
FAILED_REPLY: Final = Conversion(
    FailedReply, pb.ReadFailedRecordsResponse.PartitionData, {"records": Mapped(nested=FAILED_RECORDS)}
)
SUMMARY: Final = Conversion(SummaryReply, pb.ReadShareGroupStateSummaryResponse.PartitionData, absent=0)

_RECORDS: Final[dict[type, tuple[str, Conversion[Any, LogRecord]]]] = {
    ShareCheckpoint: ("checkpoint", Conversion(ShareCheckpoint, LogRecord, _BATCHES)),
    ShareDelta: ("delta", Conversion(ShareDelta, LogRecord, _BATCHES)),
    CheckpointTombstone: ("tombstone", Conversion(CheckpointTombstone, LogRecord)),
    DeltaTombstone: ("tombstone", Conversion(DeltaTombstone, LogRecord)),
}
_STATE: Final = Conversion(
    ShareState,
    LogRecord,
    {"runs": Mapped("state_batches", STATE_BATCH), "checkpoint_position": "position"},
)


def log_record(position: int, record: ShareRecord) -> LogRecord:
    """Returns the description of a record in the log."""
    kind, conversion = _RECORDS[type(record)]
    return conversion.message(record, position=position, kind=kind)


def state_record(state: ShareState) -> LogRecord:
    """Returns a state in the form of the checkpoint that would contain it."""
    return _STATE.message(state, kind="checkpoint")
