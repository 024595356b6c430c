"""InspectRecords: who holds what, and which offsets have no record."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.record_log.core.producers import Marker, Verified
from tests.unit.record_log.batches import batch
from tests.unit.share_partition_leader.world import ACCEPT, GROUP, TOPIC, World, code

Answer = pb.InspectRecordsResponse.Partition
Span = tuple[int, int]


async def _inspect(world: World, offset: int = 0, partition: int = 0) -> Answer:
    request = pb.InspectRecordsRequest(group_id=GROUP)
    request.partitions.add(topic_id=TOPIC, partition=partition, from_offset=offset)
    (answer,) = (await world.stub.InspectRecords(request)).partitions
    found: Answer = answer
    return found


def _spans(answer: Answer) -> tuple[list[Span], list[Span], list[Span]]:
    """Held, markers, missing."""
    held, markers, missing = (
        [(each.first_offset, each.last_offset) for each in ranges]
        for ranges in (answer.in_delivery, answer.markers, answer.missing)
    )
    return held, markers, missing


async def test_what_is_held_is_told_and_what_is_accepted_is_not(world: World) -> None:
    await world.publish(5)
    assert _spans(await _inspect(world)) == ([], [], [])
    await world.acquire()
    await world.acknowledge((1, 2, ACCEPT))
    answer = await _inspect(world)
    assert _spans(answer) == ([(0, 0), (3, 4)], [], [])
    assert (answer.log_start_offset, answer.log_end_offset, answer.next_offset) == (0, 5, 5)


async def test_markers_have_no_records(world: World) -> None:
    log = (await world.leadership.led(TOPIC, 0)).log
    await log.append(batch(2, producer=(7, 0, 0), transactional=True), Verified(0, renews_epoch=False))
    await log.end_transaction(Marker(7, 0, 1, True))
    assert _spans(await _inspect(world)) == ([], [(2, 2)], [])


async def test_batches_that_the_store_has_lost_are_missing(world: World) -> None:
    for _ in range(4):
        await world.publish(2)
    await world.chill()
    (stored,) = world.records._partitions.values()
    del stored.batches[1], stored.batches[-1]
    answer = await _inspect(world)
    assert (answer.next_offset, _spans(answer)) == (6, ([], [], [(2, 3)]))
    answer = await _inspect(world, answer.next_offset)
    assert (answer.next_offset, _spans(answer)) == (8, ([], [], [(6, 7)]))


async def test_nothing_is_read_where_there_is_nothing_to_read(world: World) -> None:
    await world.publish(2)
    for offset in (-1, 2, 9):
        answer = await _inspect(world, offset)
        assert (answer.next_offset, _spans(answer)) == (2, ([], [], []))
    assert code(await _inspect(world, partition=5)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
