"""Retried records: their group receives the copies and no other does; errors; repetition; fail-over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.records.record import FOR_GROUP_HEADER, RETRY_OF_HEADER
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.schedules import DeliveryLimits
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.share_partition_leader.log import retry
from sharebroker_server.share_partition_leader.tracing.partition_traces import LeaderTraces
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import batch, identified, scheduled
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, NAME, TOPIC, Harness, code
from tests.unit.share_partition_leader.tracing.spans import PARENT, FinishedSpans
from tests.unit.share_partition_leader.virtual_time import now

OTHERS = ("h", "k")
DAY = 86_400_000


async def retried(
    harness: Harness, *offsets: int, group: str = GROUP, request_id: str = "r1", **fields: Any
) -> pb.RetryRecordsResponse.Partition:
    request = pb.RetryRecordsRequest(group_id=group, request_id=request_id, **fields)
    request.partitions.add(topic_id=TOPIC, partition=0, offsets=offsets)
    response: pb.RetryRecordsResponse = await harness.stub.RetryRecords(request)
    return response.partitions[0]


async def copies(harness: Harness, *offsets: int, **fields: Any) -> list[int]:
    part = await retried(harness, *offsets, **fields)
    assert code(part) is ErrorCode.NONE, part.error_message
    assert not any(result.error_code for result in part.results), part
    return [result.copy_offset for result in part.results]


async def codes(harness: Harness, *offsets: int, **fields: Any) -> list[ErrorCode]:
    part = await retried(harness, *offsets, **fields)
    return [code(result) for result in part.results]


async def received(harness: Harness, group: str = GROUP, most: int = 500) -> list[tuple[int, int]]:
    """The ranges that a member acquires; accepts them."""
    request = pb.AcquireRecordsRequest(
        group_id=group,
        member_id="m1",
        max_records=most,
        partitions=[delivery.TopicPartition(topic_id=TOPIC, partition=0)],
    )
    (part,) = (await harness.stub.AcquireRecords(request)).partitions
    assert code(part) is ErrorCode.NONE, part.error_message
    ranges = [(run.first_offset, run.last_offset) for run in part.acquired]
    if ranges:
        accept = pb.AcknowledgeRecordsRequest(group_id=group, member_id="m1")
        batches = [
            pb.AcknowledgeRecordsRequest.Batch(
                first_offset=first, last_offset=last, acknowledge_types=[ACCEPT]
            )
            for first, last in ranges
        ]
        accept.partitions.add(topic_id=TOPIC, partition=0, batches=batches)
        (result,) = (await harness.stub.AcknowledgeRecords(accept)).partitions
        assert code(result) is ErrorCode.NONE, result.error_message
    return ranges


async def log_of(harness: Harness) -> Any:
    return (await harness.leadership.led(TOPIC, 0)).own_log


async def inspected(harness: Harness, group: str = GROUP) -> pb.InspectRecordsResponse.Partition:
    request = pb.InspectRecordsRequest(group_id=group)
    request.partitions.add(topic_id=TOPIC, partition=0, from_offset=-1)
    response: pb.InspectRecordsResponse = await harness.stub.InspectRecords(request)
    return response.partitions[0]


@pytest.fixture
async def groups(harness: Harness) -> None:
    for group in OTHERS:
        await harness.initialize(group=group)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
async def test_only_the_group_receives_a_copy(harness: Harness, level: str) -> None:
    for group in (GROUP, *OTHERS):
        await harness.configure("share.isolation.level", level, group)
    await harness.publish(3)
    assert await copies(harness, 1) == [3]
    await harness.publish(2)
    for group in OTHERS:
        assert await received(harness, group) == [(0, 2), (4, 5)]
        assert await harness.start_offset(group=group) == 6
    assert await received(harness) == [(0, 5)]
    assert await harness.start_offset() == 6


@pytest.mark.usefixtures("groups")
async def test_groups_that_have_read_everything_pass_a_copy(harness: Harness) -> None:
    await harness.publish(2)
    for group in (GROUP, *OTHERS):
        assert await received(harness, group) == [(0, 1)]
    assert await copies(harness, 0, 1) == [2, 3]
    assert [await received(harness, group) for group in OTHERS] == [[], []]
    assert await received(harness) == [(2, 3)]
    await harness.publish(1)
    assert [await received(harness, group) for group in OTHERS] == [[(4, 4)], [(4, 4)]]


async def test_a_copy_has_everything_of_the_record_and_two_headers(harness: Harness) -> None:
    await harness.publish_bytes(identified(["x", "y"], codec=1))
    assert await copies(harness, 1) == [2]
    log = await log_of(harness)
    (stored,) = await log.read(2, 1)
    (copy,) = DefaultRecordBatch(stored.data)
    assert copy.value == b"x"
    assert [*copy.headers][-2:] == [
        (FOR_GROUP_HEADER, GROUP.encode()),
        (RETRY_OF_HEADER, f"{NAME}/0/1".encode()),
    ]
    assert [key for key, _ in copy.headers][:2] == ["other", "sharebroker.message.id"]


@pytest.mark.usefixtures("groups")
async def test_a_header_of_a_producer_hides_nothing(harness: Harness) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1000, None, b"x", [(FOR_GROUP_HEADER, GROUP.encode())])
    await harness.publish_bytes(bytes(builder.build()))
    assert [await received(harness, group) for group in (GROUP, *OTHERS)] == [[(0, 0)]] * 3


async def test_a_repeated_request_copies_nothing_twice(harness: Harness) -> None:
    await harness.publish(4)
    assert await copies(harness, 0, 2) == [4, 5]
    assert await copies(harness, 2, 0, 3) == [4, 5, 6], "also if it names further records"
    assert (await log_of(harness)).log_end_offset == 7
    assert await copies(harness, 2, request_id="r2") == [7]


async def test_concurrent_equal_requests_copy_once(harness: Harness) -> None:
    await harness.publish(2)
    assert await asyncio.gather(*(copies(harness, 0, 1) for _ in range(3))) == [[2, 3]] * 3


async def test_a_cancelled_request_that_is_repeated_copies_once(harness: Harness) -> None:
    await harness.publish(1)
    gone = asyncio.create_task(copies(harness, 0))
    for _ in range(3):
        await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    assert await copies(harness, 0) == [1]
    assert (await log_of(harness)).log_end_offset == 2


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("fault", [Fault.DONE_UNKNOWN, Fault.LOST_UNKNOWN])
async def test_after_an_unknown_outcome_the_request_can_be_repeated(harness: Harness, fault: Fault) -> None:
    await harness.publish(1)
    harness.records.fail_next_append(fault)
    part = await retried(harness, 0)
    assert code(part) is ErrorCode.REQUEST_TIMED_OUT
    for _ in range(100):
        part = await retried(harness, 0)
        if not part.error_code:
            break
        await asyncio.sleep(0.05)
    assert [result.copy_offset for result in part.results] == [1]
    assert (await log_of(harness)).log_end_offset == 2
    assert await received(harness, "h") == [(0, 0)]


@pytest.mark.usefixtures("groups")
async def test_the_next_leader_hides_the_copies_and_recognises_the_request(harness: Harness) -> None:
    await harness.publish(2)
    assert await copies(harness, 1) == [2]
    log = await log_of(harness)
    await harness.leadership._lost(log.partition)
    await harness.leadership._acquired(log.partition, log.epoch)
    assert await copies(harness, 1) == [2]
    assert await received(harness, "h") == [(0, 1)]
    assert await received(harness) == [(0, 2)]


async def test_many_records_are_copied_in_several_batches(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "COPY_BYTES", 400)
    for _ in range(3):
        await harness.publish(5, size=100)
    assert await copies(harness, *range(0, 15, 2)) == [*range(15, 23)]
    log = await log_of(harness)
    assert len(await log.read(15, 10**6)) > 1
    found = [
        (run.first_offset, run.last_offset, run.copy_offset) for run in (await inspected(harness)).copied
    ]
    assert [first for first, last, _ in found] == [*range(0, 15, 2)]


async def test_a_check_writes_nothing(harness: Harness) -> None:
    await harness.publish(2)
    assert await copies(harness, 0, 1, validate_only=True) == [-1, -1]
    assert (await log_of(harness)).log_end_offset == 2


async def test_records_that_the_log_does_not_have(harness: Harness) -> None:
    await harness.publish(2)
    await harness.publish(1)
    log = await log_of(harness)
    await log.delete_records(2)
    assert await codes(harness, 0, 2, 3, -1) == [
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.NONE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ]


async def test_records_of_transactions(harness: Harness) -> None:
    log = await log_of(harness)
    for producer, commit in ((7, False), (8, True)):
        data = batch(1, producer=(producer, 0, 0), transactional=True)
        await log.append(data, Verified(log.log_end_offset, renews_epoch=False))
        await log.end_transaction(Marker(producer, 0, 1, commit))
    data = batch(1, producer=(9, 0, 0), transactional=True)
    await log.append(data, Verified(log.log_end_offset, renews_epoch=False))
    assert await codes(harness, 0, 1, 2, 4) == [
        ErrorCode.INVALID_RECORD_STATE,  # aborted
        ErrorCode.RESOURCE_NOT_FOUND,  # a marker
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD_STATE,  # open
    ]


async def test_records_that_the_group_must_not_receive(harness: Harness) -> None:
    log = await log_of(harness)
    log.settings = LogSettings(delivery=DeliveryLimits(DAY, -1), dedup_window_ms=DAY)
    at = log.now_ms
    await harness.publish_bytes(scheduled([at + DAY // 2, at + DAY // 2], time=at))
    await log.recall(0, harness.leadership.stored_now_ms)
    await harness.publish_bytes(identified(["x", None], time=at))
    await harness.publish_bytes(identified(["x", None], time=at))
    assert await copies(harness, 3, group="h") == [6]
    assert await codes(harness, 0, 1, 4, 6) == [ErrorCode.INVALID_RECORD_STATE] * 4


async def test_a_record_above_the_limit_of_the_topic(harness: Harness) -> None:
    await harness.publish(1, size=500)
    await harness.publish(1, size=5)
    log = await log_of(harness)
    log.settings = LogSettings(max_message_bytes=300)
    assert await codes(harness, 0, 1) == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE]


async def test_too_many_records_are_rejected(harness: Harness) -> None:
    await harness.publish(1)
    assert code(await retried(harness, *range(1001))) is ErrorCode.INVALID_REQUEST


@pytest.mark.usefixtures("groups")
async def test_records_for_others_do_not_expire(harness: Harness) -> None:
    """Expired records are failed records of the group; these are not."""
    await harness.configure("share.record.max.age.ms", "1000", "h")
    await harness.publish_bytes(batch(2, time=int(now() * 1000)))
    assert await copies(harness, 0) == [2]
    await asyncio.sleep(3600)
    share = await harness.share_partition(group="h")
    assert await received(harness, "h") == []
    assert share.core.counts.expired == 2


@pytest.mark.usefixtures("groups")
async def test_an_inspection_lists_copies(harness: Harness) -> None:
    await harness.publish(5)
    await copies(harness, 1, 2, 4)
    own, other = await inspected(harness), await inspected(harness, "h")
    assert [(run.first_offset, run.last_offset, run.copy_offset) for run in own.copied] == [
        (1, 2, 5),
        (4, 4, 7),
    ]
    assert not own.for_others
    assert [(span.first_offset, span.last_offset) for span in other.for_others] == [(5, 7)]
    assert not other.copied


async def test_the_trace_of_a_record_continues_in_its_copy(harness: Harness) -> None:
    spans = FinishedSpans()
    led = await harness.leadership.led(TOPIC, 0)
    led.traces = LeaderTraces(spans.tracer, lambda: 0.0).of(NAME, 0, 0)
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1000, None, b"x", [(key, value.encode()) for key, value in PARENT.headers])
    await harness.publish_bytes(bytes(builder.build()))
    assert await copies(harness, 0) == [1]
    found = [(span.name, span.context.trace_id) for span in spans.all() if span.context is not None]
    assert found == [(f"append {NAME}", PARENT.trace_id)] * 2
    assert [offset for offset, _ in led.traces.offsets.within(0, 9)] == [0, 1]
