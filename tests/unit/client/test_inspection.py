"""Responses about stored state become values with names, seconds and None."""

from __future__ import annotations

from sharebroker.admin_model import RetriedRun
from sharebroker.inspection import (
    LogInspection,
    StoredState,
    StoredStateBatch,
    StoredStateRecord,
    log_inspection,
    stored_state,
)
from sharebroker.verification.runs import OffsetSpan
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1.share_partition_leader_pb2 import InspectRecordsResponse

Response = state.InspectShareGroupStateResponse


def test_records_have_their_fields_and_times_in_seconds() -> None:
    record = Response.LogRecord(
        position=3,
        kind="checkpoint",
        checkpoint_epoch=1,
        start_offset=100,
        state_epoch=2,
        leader_epoch=5,
        delivery_complete_count=7,
        create_timestamp_ms=1500,
        write_timestamp_ms=2500,
        state_batches=[
            state.StateBatch(first_offset=100, last_offset=101, delivery_state=2, delivery_count=1),
            state.StateBatch(
                first_offset=102,
                last_offset=102,
                delivery_count=2,
                note=state.StateNote(not_before_ms=1001, lock_token=9),
            ),
            state.StateBatch(
                first_offset=103,
                last_offset=104,
                delivery_state=3,
                delivery_count=5,
                note=state.StateNote(failure=state.FailureNote(disposition=2, time_ms=1002)),
            ),
        ],
    )
    found = stored_state(Response(shard=4, stream="s", records=[record], live=record, consistent=True))
    batches = (
        StoredStateBatch(100, 101, 2, 1),
        StoredStateBatch(102, 102, 0, 2, 1.001, 9),
        StoredStateBatch(103, 104, 3, 5, disposition="exhausted", failed_at=1.002),
    )
    expected = StoredStateRecord("checkpoint", 3, 1, 0, 100, 2, 5, 7, batches, 1.5, 2.5)
    assert found == StoredState(4, "s", (expected,), None, expected, consistent=True)


def test_a_share_partition_without_state_has_none() -> None:
    assert stored_state(Response()) == StoredState()


def test_a_part_of_a_log_has_spans_of_offsets() -> None:
    span = InspectRecordsResponse.OffsetRange
    part = InspectRecordsResponse.Partition(
        topic_id="id",
        log_start_offset=1,
        log_end_offset=9,
        next_offset=8,
        in_delivery=[span(first_offset=1, last_offset=2)],
        markers=[span(first_offset=3, last_offset=3)],
        missing=[span(first_offset=4, last_offset=4)],
        for_others=[span(first_offset=5, last_offset=6)],
        copied=[InspectRecordsResponse.CopiedRange(first_offset=1, last_offset=1, copy_offset=7)],
    )
    assert log_inspection(part) == LogInspection(
        1,
        9,
        8,
        in_delivery=(OffsetSpan(1, 2),),
        markers=(OffsetSpan(3, 3),),
        missing=(OffsetSpan(4, 4),),
        for_others=(OffsetSpan(5, 6),),
        copied=(RetriedRun(1, 1, 7),),
    )
