"""Converts between messages about share state and their values (protos/sharebroker/share_coordinator/v1)."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.model import (
    FailedRecords,
    FailureNote,
    JournalUpdate,
    StateBatch,
    StateNote,
    StateWrite,
)
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as pb
from sharebroker_server.persister.port import SharePartitionState, StateSummary
from sharebroker_server.proto_values import Conversion, Mapped

BATCH_FIELDS: Final[dict[str, str | Mapped]] = {
    "first": "first_offset",
    "last": "last_offset",
    "state": "delivery_state",
}
"""The fields of a state batch that have another name in messages."""

FAILED_FIELDS: Final[dict[str, str | Mapped]] = {"first": "first_offset", "last": "last_offset"}
"""The fields of failed records that have another name in messages."""

_FAILURE: Final = Mapped(nested=Conversion(FailureNote, pb.FailureNote))
_NOTE: Final = Mapped(nested=Conversion(StateNote, pb.StateNote, {"failure": _FAILURE}))
STATE_BATCH: Final = Conversion(StateBatch, pb.StateBatch, BATCH_FIELDS | {"note": _NOTE})
FAILED_RECORDS: Final = Conversion(FailedRecords, pb.FailedRecords, FAILED_FIELDS)
JOURNAL_UPDATE: Final = Conversion(
    JournalUpdate, pb.JournalUpdate, {"records": Mapped(nested=FAILED_RECORDS)}
)

_BATCHES: Final[dict[str, str | Mapped]] = {"batches": Mapped("state_batches", STATE_BATCH)}
WRITE: Final = Conversion(
    StateWrite,
    pb.WriteShareGroupStateRequest.PartitionData,
    _BATCHES | {"failed": Mapped(nested=JOURNAL_UPDATE)},
)
STATE: Final = Conversion(SharePartitionState, pb.ReadShareGroupStateResponse.PartitionData, _BATCHES)
SUMMARY: Final = Conversion(StateSummary, pb.ReadShareGroupStateSummaryResponse.PartitionData, absent=0)
