"""InspectRecords: who holds what, and which offsets have no record."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.producers import Marker, Verified
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.harness import ACCEPT, GROUP, TOPIC, Harness, code

Answer = pb.InspectRecordsResponse.Partition
Span = tuple[int, int]


async def _inspect(harness: Harness, offset: int = 0, partition: int = 0) -> Answer:
    request = pb.InspectRecordsRequest(group_id=GROUP)
    request.partitions.add(topic_id=TOPIC, partition=partition, from_offset=offset)
    (answer,) = (await harness.stub.InspectRecords(request)).partitions
    found: Answer = answer
    return found


def _spans(answer: Answer) -> tuple[list[Span], list[Span], list[Span]]:
    """Held, markers, missing."""
    held, markers, missing = (
        [(each.first_offset, each.last_offset) for each in ranges]
        for ranges in (answer.in_delivery, answer.markers, answer.missing)
    )
    return held, markers, missing


async def test_held_records_are_reported_and_accepted_ones_are_not(harness: Harness) -> None:
    await harness.publish(5)
    assert _spans(await _inspect(harness)) == ([], [], [])
    await harness.acquire()
    await harness.acknowledge((1, 2, ACCEPT))
    answer = await _inspect(harness)
    assert _spans(answer) == ([(0, 0), (3, 4)], [], [])
    assert (answer.log_start_offset, answer.log_end_offset, answer.next_offset) == (0, 5, 5)


async def test_markers_have_no_records(harness: Harness) -> None:
    log = (await harness.leadership.led(TOPIC, 0)).log
    await log.append(batch(2, producer=(7, 0, 0), transactional=True), Verified(0, renews_epoch=False))
    await log.end_transaction(Marker(7, 0, 1, True))
    assert _spans(await _inspect(harness)) == ([], [(2, 2)], [])


async def test_lost_batches_are_reported_as_missing(harness: Harness) -> None:
    for _ in range(4):
        await harness.publish(2)
    await harness.evict_hot_cache()
    (stored,) = harness.records._partitions.values()
    del stored.batches[1], stored.batches[-1]
    answer = await _inspect(harness)
    assert (answer.next_offset, _spans(answer)) == (6, ([], [], [(2, 3)]))
    answer = await _inspect(harness, answer.next_offset)
    assert (answer.next_offset, _spans(answer)) == (8, ([], [], [(6, 7)]))


async def test_empty_range_reads_nothing(harness: Harness) -> None:
    await harness.publish(2)
    for offset in (-1, 2, 9):
        answer = await _inspect(harness, offset)
        assert (answer.next_offset, _spans(answer)) == (2, ([], [], []))
    assert code(await _inspect(harness, partition=5)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
