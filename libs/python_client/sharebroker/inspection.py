"""The stored state of a share-partition and the contents of a record log, as `Admin` returns them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sharebroker.admin_model import RetriedRun
from sharebroker.verification.runs import OffsetSpan
from sharebroker_protocol.gateway.v1 import admin_pb2 as gateway
from sharebroker_protocol.model import DISPOSITION_NAMES
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader


@dataclass(frozen=True, slots=True)
class StoredStateBatch:
    """Offsets in one state (Kafka: StateBatch)."""

    first_offset: int
    """The first offset."""
    last_offset: int
    """The last offset, inclusive."""
    delivery_state: int
    """0 available, 2 acknowledged, 3 archiving, 4 archived."""
    delivery_count: int
    """The number of deliveries."""
    not_before: float = 0.0
    """When the records can be acquired, in seconds since the Unix epoch by the clock of Redis; 0: now."""
    lock_token: int = 0
    """The token of a durable lock that ends at `not_before`; 0 for none."""
    disposition: str = ""
    """How archiving records failed: "rejected", "exhausted" or "expired"; empty if it is not stored."""
    failed_at: float = 0.0
    """When archiving records failed, in seconds since the Unix epoch; 0 if it is not stored."""


@dataclass(frozen=True, slots=True)
class StoredStateRecord:
    """A record of a share-partition in the log of its shard, or the state that such records replay to."""

    kind: str = ""
    """"checkpoint", "delta" or "tombstone"; empty for a state that is not a record."""
    position: int = 0
    """The position in the log; 0 for a state that is not a record."""
    checkpoint_epoch: int = 0
    """The epoch of the checkpoint; a delta has that of its checkpoint."""
    delta_index: int = 0
    """The index of a delta after its checkpoint."""
    start_offset: int = 0
    """The share-partition start offset; -1 if the record does not change it, or none was chosen."""
    state_epoch: int = 0
    """The state epoch; deltas have none."""
    leader_epoch: int = 0
    """The lease epoch of the leader that wrote the record."""
    delivery_complete_count: int = 0
    """The number of finished records from the start offset on; -1 if it is not known."""
    state_batches: tuple[StoredStateBatch, ...] = ()
    """The states of offsets, ascending."""
    created: float = 0.0
    """When the checkpoint was created, in seconds since the Unix epoch; 0 for deltas."""
    written: float = 0.0
    """When the record was written, in seconds since the Unix epoch; 0 if it is not stored."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The stored state of a share-partition."""

    shard: int = 0
    """The number of the shard."""
    stream: str = ""
    """The key of the shard's stream in Redis, or of the partition's log."""
    records: tuple[StoredStateRecord, ...] = ()
    """The latest checkpoint and the deltas after it, in log order."""
    folded: StoredStateRecord | None = None
    """The state that the records replay to; None if there is none."""
    live: StoredStateRecord | None = None
    """The state in the memory of the share coordinator; None if there is none."""
    consistent: bool = False
    """Whether the state in memory equals the replayed one."""
    share_checkpoint_offset: int | None = None
    """The offset of the latest checkpoint; None unless the state is in the topic's log."""
    earliest_share_offset: int | None = None
    """The lowest such offset of all groups; None unless the state is in the topic's log."""


@dataclass(frozen=True, slots=True)
class LogInspection:
    """A part of the record log of a partition, as a group reads it. Spans ascend."""

    log_start_offset: int = 0
    """The first offset of the log."""
    log_end_offset: int = 0
    """The offset after the last record."""
    next_offset: int = 0
    """The offset up to which the log was read; if it is below `log_end_offset`, continue from here."""
    in_delivery: tuple[OffsetSpan, ...] = ()
    """Records that members hold, or that wait for a delayed release."""
    markers: tuple[OffsetSpan, ...] = ()
    """Transaction markers: offsets without a record."""
    missing: tuple[OffsetSpan, ...] = ()
    """Offsets in no batch: lost records."""
    for_others: tuple[OffsetSpan, ...] = ()
    """Copies of failed records that only another group receives."""
    copied: tuple[RetriedRun, ...] = ()
    """Records that were copied for the group by a retry, in the order of the copies."""


def stored_state(response: state.InspectShareGroupStateResponse) -> StoredState:
    """Returns the state of a response."""
    return StoredState(
        response.shard,
        response.stream,
        tuple(map(_record, response.records)),
        _record(response.folded) if response.HasField("folded") else None,
        _record(response.live) if response.HasField("live") else None,
        response.consistent,
        response.share_checkpoint_offset if response.HasField("share_checkpoint_offset") else None,
        response.earliest_share_offset if response.HasField("earliest_share_offset") else None,
    )


def _record(record: state.InspectShareGroupStateResponse.LogRecord) -> StoredStateRecord:
    return StoredStateRecord(
        record.kind,
        record.position,
        record.checkpoint_epoch,
        record.delta_index,
        record.start_offset,
        record.state_epoch,
        record.leader_epoch,
        record.delivery_complete_count,
        tuple(map(_batch, record.state_batches)),
        record.create_timestamp_ms / 1000,
        record.write_timestamp_ms / 1000,
    )


def _batch(batch: state.StateBatch) -> StoredStateBatch:
    if not batch.HasField("note"):  # nearly all
        return StoredStateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
        )
    note = batch.note
    return StoredStateBatch(
        batch.first_offset,
        batch.last_offset,
        batch.delivery_state,
        batch.delivery_count,
        note.not_before_ms / 1000,
        note.lock_token,
        DISPOSITION_NAMES.get(note.failure.disposition, ""),
        note.failure.time_ms / 1000,
    )


def log_inspection(part: leader.InspectRecordsResponse.Partition) -> LogInspection:
    """Returns what a response contains of a partition."""
    return LogInspection(
        part.log_start_offset,
        part.log_end_offset,
        part.next_offset,
        _spans(part.in_delivery),
        _spans(part.markers),
        _spans(part.missing),
        _spans(part.for_others),
        retried_runs(part.copied),
    )


def retried_runs(
    copied: Iterable[leader.InspectRecordsResponse.CopiedRange | gateway.ListFailedRecordsResponse.Retried],
) -> tuple[RetriedRun, ...]:
    """Returns the runs of records that were copied for a group."""
    return tuple(RetriedRun(run.first_offset, run.last_offset, run.copy_offset) for run in copied)


def _spans(ranges: Iterable[leader.InspectRecordsResponse.OffsetRange]) -> tuple[OffsetSpan, ...]:
    return tuple(OffsetSpan(each.first_offset, each.last_offset) for each in ranges)
