"""Where a group begins, and what becomes of the coordinator's refusals."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import ACCEPT, Harness
from tests.unit.share_partition_leader.virtual_time import now


@pytest.mark.parametrize(
    ("reset", "start"),
    [("earliest", 2), ("latest", 9), ("by_duration:PT1H", 6), ("by_duration:P30D", 3)],
)
async def test_where_no_offset_is_set_the_groups_policy_decides(
    harness: Harness, reset: str, start: int
) -> None:
    ms = round(now() * 1000)
    for age_ms in (90 * 86_400_000, 2 * 3_600_000, 60_000):
        await harness.publish_bytes(batch(3, time=ms - age_ms))
    await (await harness.share_partition())._log.delete_records(2)
    await harness.configure("share.auto.offset.reset", reset, group="new")
    await harness.initialize(group="new", start=-1)
    assert (await harness.share_partition(group="new")).core.start_offset == start


async def test_by_duration_without_a_record_is_offset_not_available(harness: Harness) -> None:
    await harness.publish_bytes(batch(3, time=1000))
    await harness.configure("share.auto.offset.reset", "by_duration:PT1H", group="new")
    await harness.initialize(group="new", start=-1)
    with pytest.raises(KafkaError, match=r"OFFSET_NOT_AVAILABLE: .*PT1H") as refused:
        await harness.share_partition(group="new")
    assert refused.value.retriable


async def test_an_offset_that_is_set_counts(harness: Harness) -> None:
    await harness.publish(5)
    await harness.initialize(group="new", start=3)
    assert (await harness.share_partition(group="new")).core.start_offset == 3


async def test_written_state_is_loaded_by_the_next_leader(harness: Harness) -> None:
    await harness.publish(10)
    await harness.acquire()
    await harness.acknowledge((2, 4, ACCEPT))
    (await harness.share_partition()).retire()
    (answer,) = await harness.acquire()
    assert [(run.first_offset, run.last_offset, run.delivery_count) for run in answer.acquired] == [
        (0, 1, 1),
        (5, 9, 1),
    ]


@pytest.mark.parametrize(
    ("stored", "seen"),
    [
        (ErrorCode.INVALID_REQUEST, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
async def test_read_errors_are_translated_for_consumers(
    harness: Harness, stored: ErrorCode, seen: ErrorCode
) -> None:
    harness.persister.on_read.append(
        KafkaError(stored, "the reason", metadata={"state_epoch": "3"}, retry_after=0.5)
    )
    with pytest.raises(KafkaError) as refused:
        await harness.share_partition()
    assert refused.value.code is seen
    assert refused.value.metadata == {"state_epoch": "3"}
    await harness.share_partition()
