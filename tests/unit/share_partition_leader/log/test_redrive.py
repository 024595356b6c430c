"""Redriven letters: who receives their records; each once; errors; repetition; the next leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.record_validation import LogSettings
from sharebroker_server.share_partition_leader.log import redrive
from tests.testkit.memory.stream_log import Fault
from tests.unit.record_log.batches import identified
from tests.unit.share_partition_leader.harness import GROUP, TOPIC, Harness, code
from tests.unit.share_partition_leader.log.test_retry import copies, inspected, log_of, received

OTHER = "h"
LETTERS = "dlq/0/"
"""The request id of the letters of one partition."""


def record(letter: int, value: bytes = b"x", **fields: Any) -> pb.RedriveRecordsRequest.Record:
    made = pb.RedriveRecordsRequest.Record(
        letter_offset=letter, source=f"orders/0/{letter % 3}", source_offset=letter % 3, value=value, **fields
    )
    made.headers.add(key="x", value=b"1")
    made.headers.add(key="null")
    made.headers.add(key="sharebroker.for.group", value=b"another")
    return made


async def redriven(
    harness: Harness, records: Iterable[pb.RedriveRecordsRequest.Record], **fields: Any
) -> pb.RedriveRecordsResponse.Partition:
    request = pb.RedriveRecordsRequest(**{"group_id": GROUP, "request_id": LETTERS} | fields)
    request.partitions.add(topic_id=TOPIC, partition=0, records=records)
    response: pb.RedriveRecordsResponse = await harness.stub.RedriveRecords(request)
    return response.partitions[0]


async def offsets(harness: Harness, *letters: int, **fields: Any) -> list[int]:
    part = await redriven(harness, map(record, letters), **fields)
    assert code(part) is ErrorCode.NONE, part.error_message
    assert not any(result.error_code for result in part.results), part
    assert [result.letter_offset for result in part.results] == sorted(letters)
    return [result.copy_offset for result in part.results]


async def headers_at(harness: Harness, offset: int) -> dict[str, bytes | None]:
    (stored,) = await (await log_of(harness)).read(offset, 1)
    found = next(each for each in DefaultRecordBatch(stored.data) if each.offset == offset)
    return dict(found.headers)


@pytest.fixture
async def other(harness: Harness) -> None:
    await harness.initialize(group=OTHER)


@pytest.mark.usefixtures("other")
async def test_only_the_group_receives_a_record(harness: Harness) -> None:
    await harness.publish(3)
    assert await offsets(harness, 7) == [3]
    await harness.publish(1)
    assert await received(harness) == [(0, 4)]
    assert await received(harness, OTHER) == [(0, 2), (4, 4)]
    assert await headers_at(harness, 3) == {
        "x": b"1",
        "null": None,
        "sharebroker.for.group": GROUP.encode(),
        "sharebroker.retry.of": b"orders/0/1",
    }


@pytest.mark.usefixtures("other")
async def test_all_groups_receive_a_record_without_a_group(harness: Harness) -> None:
    await harness.publish(1)
    assert await offsets(harness, 7, group_id="") == [1]
    assert [await received(harness, group) for group in (GROUP, OTHER)] == [[(0, 1)]] * 2
    assert "sharebroker.for.group" not in await headers_at(harness, 1)


async def test_each_letter_is_redriven_once_per_target_and_request(harness: Harness) -> None:
    await harness.publish(4)
    assert await offsets(harness, 5, 6) == [4, 5]
    assert await offsets(harness, 5, 6, 8) == [4, 5, 6], "also if it names further letters"
    assert await offsets(harness, 8, 6) == [5, 6]
    assert await offsets(harness, 5, group_id="") == [7], "another target"
    assert await offsets(harness, 5, request_id="dlq/1/") == [8], "a letter of another partition"
    assert await offsets(harness, 5, request_id="dlq/0/again") == [9]
    assert (await log_of(harness)).log_end_offset == 10


async def test_two_letters_of_one_record_are_both_redriven(harness: Harness) -> None:
    """A record fails again after the offsets of its group were altered."""
    await harness.publish(3)
    assert await offsets(harness, 4, 7) == [3, 4]
    found = [(run.first_offset, run.copy_offset) for run in (await inspected(harness)).copied]
    assert found == [(1, 3), (1, 4)]


async def test_a_retry_of_the_record_is_independent(harness: Harness) -> None:
    await harness.publish(3)
    assert await copies(harness, 1) == [3]
    assert await offsets(harness, 1) == [4]
    assert await copies(harness, 1) == [3]


async def test_concurrent_equal_requests_append_once(harness: Harness) -> None:
    await harness.publish(3)
    assert await asyncio.gather(*(offsets(harness, 0, 1) for _ in range(3))) == [[3, 4]] * 3


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("fault", [Fault.DONE_UNKNOWN, Fault.LOST_UNKNOWN])
async def test_after_an_unknown_outcome_the_request_can_be_repeated(harness: Harness, fault: Fault) -> None:
    await harness.publish(1)
    harness.records.fail_next_append(fault)
    assert code(await redriven(harness, [record(0)])) is ErrorCode.REQUEST_TIMED_OUT
    for _ in range(100):
        part = await redriven(harness, [record(0)])
        if not part.error_code:
            break
        await asyncio.sleep(0.05)
    assert [result.copy_offset for result in part.results] == [1]
    assert (await log_of(harness)).log_end_offset == 2
    assert await received(harness, OTHER) == [(0, 0)]


@pytest.mark.usefixtures("other")
async def test_the_next_leader_hides_the_records_and_recognises_the_letters(harness: Harness) -> None:
    await harness.publish(2)
    assert await offsets(harness, 1) == [2]
    log = await log_of(harness)
    await harness.leadership._lost(log.partition)
    await harness.leadership._acquired(log.partition, log.epoch)
    assert await offsets(harness, 1) == [2]
    assert await received(harness, OTHER) == [(0, 1)]
    assert await received(harness) == [(0, 2)]


async def test_many_records_are_appended_in_several_batches(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redrive, "BATCH_BYTES", 400)
    await harness.publish(3)
    assert await offsets(harness, *range(20)) == [*range(3, 23)]
    assert len(await (await log_of(harness)).read(3, 10**6)) > 1


async def test_a_check_writes_nothing(harness: Harness) -> None:
    await harness.publish(3)
    assert await offsets(harness, 0) == [3]
    assert await offsets(harness, 0, 1, validate_only=True) == [3, -1]
    assert (await log_of(harness)).log_end_offset == 4


async def test_a_record_above_the_limit_of_the_topic(harness: Harness) -> None:
    await harness.publish(3)
    (await log_of(harness)).settings = LogSettings(max_message_bytes=300)
    part = await redriven(harness, [record(0, b"x" * 500), record(1)])
    assert [code(result) for result in part.results] == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE]


async def test_null_keys_and_values_stay_null(harness: Harness) -> None:
    await harness.publish(1)
    empty = pb.RedriveRecordsRequest.Record(letter_offset=1, source="orders/0/0", key=b"")
    await redriven(harness, [empty])
    (stored,) = await (await log_of(harness)).read(1, 1)
    (found,) = DefaultRecordBatch(stored.data)
    assert (found.key, found.value) == (b"", None)


async def test_message_ids_of_redriven_records_do_not_count(harness: Harness) -> None:
    log = await log_of(harness)
    log.settings = LogSettings(dedup_window_ms=86_400_000)
    await harness.publish_bytes(identified(["x"], time=log.now_ms))
    again = record(1)
    again.headers.add(key="sharebroker.message.id", value=b"x")
    await redriven(harness, [again], group_id="")
    assert await received(harness) == [(0, 1)]
    await harness.publish_bytes(identified(["y"], time=log.now_ms))
    fresh = record(2)
    fresh.headers.add(key="sharebroker.message.id", value=b"z")
    await redriven(harness, [fresh], group_id="")
    await harness.leadership._lost(log.partition)
    await harness.leadership._acquired(log.partition, log.epoch)
    (await log_of(harness)).settings = log.settings
    await harness.publish_bytes(identified(["z"], time=log.now_ms))
    assert await received(harness) == [(2, 4)]


@pytest.mark.parametrize("letters", [[1, 1], [*range(1001)]])
async def test_invalid_requests_are_rejected(harness: Harness, letters: list[int]) -> None:
    await harness.publish(1)
    assert code(await redriven(harness, map(record, letters))) is ErrorCode.INVALID_REQUEST
