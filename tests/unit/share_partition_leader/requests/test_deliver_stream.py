"""The Deliver stream: records by credit, results of acknowledgements, notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.delivery.v1 import delivery_pb2 as delivery
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.share_partition_leader.partition.share_group_partition import ShareGroupPartition
from sharebroker_server.share_partition_leader.requests import send_queue
from sharebroker_server.testkit.waiting import eventually
from tests.unit.share_partition_leader.streams import said, stream
from tests.unit.share_partition_leader.virtual_time import settle
from tests.unit.share_partition_leader.world import (
    ACCEPT,
    GROUP,
    NAME,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    World,
    code,
)
from tests.unit.share_partition_leader.world import world as started

OK, STATE, REQUEST = ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST


# --- records and credit


async def test_records_come_as_they_are_published(world: World) -> None:
    async with stream(world, credit=100) as consumer:
        for first in (0, 3, 6):
            await world.publish(3)
            await consumer.got_offsets(*range(first + 3))
    assert {each.topic for message in consumer.messages for each in message.deliveries} == {NAME}


async def test_what_happens_in_one_turn_leaves_in_one_message(world: World) -> None:
    await world.publish(5)
    async with stream(world, credit=5) as consumer:
        await consumer.got_offsets(*range(5))
        before = len(consumer.messages)
        await consumer.told(*(said(offset) for offset in range(5)))
        assert len(consumer.messages) == before + 1


async def test_no_more_records_come_than_there_is_credit_for(world: World) -> None:
    for _ in range(10):
        await world.publish(1)
    async with stream(world, credit=3) as consumer:
        await consumer.got_offsets(0, 1, 2)
        await settle()
        assert consumer.offsets == [0, 1, 2]
        consumer.grant(2)
        await consumer.got_offsets(*range(5))


async def test_credit_can_be_taken_back(world: World) -> None:
    async with stream(world, credit=5) as consumer:
        consumer.grant(-5)
        await world.publish(1)
        await settle()
        assert not consumer.records
        consumer.grant(1)
        await consumer.got_offsets(0)


@pytest.mark.parametrize(("mode", "got"), [(0, 10), (1, 4)])
async def test_the_mode_says_whether_a_batch_is_cut(world: World, mode: int, got: int) -> None:
    await world.publish(10)
    async with stream(world, credit=4, acquire_mode=mode) as consumer:
        await consumer.got_offsets(*range(got))


async def test_runs_have_the_size_that_was_asked_for(world: World) -> None:
    for _ in range(4):
        await world.publish(5)
    async with stream(world, credit=20, batch_size=10) as consumer:
        await consumer.got_offsets(*range(20))
        assert [(run.first_offset, run.last_offset) for _, run in consumer.runs] == [(0, 9), (10, 19)]


async def test_partitions_take_turns() -> None:
    async with started() as world:
        await world.create_topic(partitions=3)
        for partition in range(3):
            await world.publish(1, partition, size=600_000)
            await world.publish(1, partition, size=600_000)
        async with stream(world, partitions=range(3)) as consumer:
            await settle()
            consumer.grant(6)
            await consumer.got(lambda: len(consumer.records) == 6)
            assert [sorted(consumer.records[:3]), sorted(consumer.records[3:])] == [
                [(0, 0), (1, 0), (2, 0)],
                [(0, 1), (1, 1), (2, 1)],
            ]


async def test_a_message_is_closed_when_it_is_full(world: World) -> None:
    for _ in range(6):
        await world.publish(1, size=600_000)
    with patch.object(send_queue, "MESSAGE_BYTES", 1_000_000):
        async with stream(world, credit=6) as consumer:
            await consumer.got_offsets(*range(6))
            assert [len(message.deliveries) for message in consumer.messages] == [2, 2, 2]


async def test_records_come_from_the_store_when_they_left_memory(world: World) -> None:
    for _ in range(3):
        await world.publish(2)
    await world.chill()
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(*range(6))
        await world.publish(1)
        await consumer.got_offsets(*range(7))


async def test_a_partition_that_cannot_be_read_is_reported_and_tried_again(world: World) -> None:
    await world.publish(2)
    await world.chill()
    world.records.away = True
    async with stream(world, credit=10) as consumer:
        await consumer.got(lambda: consumer.problems)
        assert code(consumer.problems[0]) is ErrorCode.KAFKA_STORAGE_ERROR
        world.records.away = False
        await consumer.got_offsets(0, 1)


async def test_a_log_that_another_took_over_is_reported_and_tried_again(world: World) -> None:
    await world.publish(1)
    async with stream(world) as consumer:
        await eventually(lambda: world.persister.reads)
        await (await world.leadership.led(TOPIC, 0)).log.close()
        consumer.grant(1)
        await consumer.got(lambda: len(consumer.problems) > 1)
        assert {code(problem) for problem in consumer.problems} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


# --- which partitions


async def test_partitions_are_replaced_and_what_is_held_stays_held() -> None:
    async with started() as world:
        await world.create_topic(partitions=2)
        await world.publish(2, 0)
        await world.publish(2, 1)
        async with stream(world, partitions=[0], credit=100) as consumer:
            await consumer.got(lambda: consumer.records == [(0, 0), (0, 1)])
            consumer.serve(1)
            await consumer.got(lambda: (1, 1) in consumer.records)
            await world.publish(2, 0)
            await settle()
            assert len(consumer.records) == 4
            assert await consumer.told(said(0, 1, partition=0)) == [(0, 1, OK)]
            consumer.serve(0, 1)
            await consumer.got(lambda: (0, 3) in consumer.records)


async def test_a_partition_left_out_while_it_is_loaded_is_not_delivered(world: World) -> None:
    await world.publish(1)
    world.persister.open.clear()
    async with stream(world, credit=10) as consumer:
        await eventually(lambda: world.persister.reads)
        consumer.serve()
        await settle()
        world.persister.open.set()
        await settle()
        assert not consumer.records
        consumer.serve(0)
        await consumer.got_offsets(0)


async def test_a_partition_left_out_while_it_is_retried_is_forgotten(world: World) -> None:
    async with stream(world, credit=10, group="new") as consumer:
        await consumer.got(lambda: consumer.problems)
        consumer.serve()
        await asyncio.sleep(10)
        reads = world.persister.reads
        await asyncio.sleep(10)
        assert world.persister.reads == reads


async def test_state_that_is_not_there_yet_is_waited_for(world: World) -> None:
    await world.publish(2)
    async with stream(world, credit=10, group="new") as consumer:
        await consumer.got(lambda: consumer.problems)
        assert code(consumer.problems[0]) is ErrorCode.LEADER_NOT_AVAILABLE
        await world.initialize(group="new")
        await consumer.got_offsets(0, 1)


async def test_a_group_that_is_gone_is_reported_once_and_tried_when_named_again(world: World) -> None:
    await world.publish(2)
    world.persister.on_read.append(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))
    async with stream(world, credit=10) as consumer:
        await consumer.got(lambda: consumer.problems)
        await asyncio.sleep(100)
        assert [code(problem) for problem in consumer.problems] == [ErrorCode.GROUP_ID_NOT_FOUND]
        assert not consumer.records
        consumer.serve(0)
        await consumer.got_offsets(0, 1)


async def test_a_failure_nobody_foresaw_is_reported_and_tried_when_named_again(world: World) -> None:
    await world.publish(2)
    with patch.object(ShareGroupPartition, "acquire_uncached", side_effect=ZeroDivisionError):
        await world.chill()
        async with stream(world, credit=10) as consumer:
            with capture_logs() as logs:
                await consumer.got(lambda: consumer.problems)
            assert code(consumer.problems[0]) is ErrorCode.UNKNOWN_SERVER_ERROR
            assert "delivery failed" in {entry["event"] for entry in logs}
            await asyncio.sleep(100)
            assert len(consumer.problems) == 1


async def test_a_partition_led_elsewhere_is_reported(world: World) -> None:
    await world.share_partition()
    await world.lose()
    async with stream(world, credit=10) as consumer:
        await consumer.got(lambda: consumer.problems)
        problem = consumer.problems[0]
        assert (problem.topic_id, problem.partition) == (TOPIC, 0)
        assert code(problem) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- acknowledgements


async def test_each_acknowledgement_has_its_own_result(world: World) -> None:
    await world.publish(6)
    async with stream(world, credit=6) as consumer:
        await consumer.got_offsets(*range(6))
        ids = consumer.say(said(4), said(0), said(1, 2), said(3, kind=REJECT), said(5, kind=RELEASE))
        await consumer.got(lambda: len(consumer.results) == 5)
        assert [consumer.outcome(ack_id) for ack_id in ids] == [
            [(4, 4, OK)],
            [(0, 0, OK)],
            [(1, 2, OK)],
            [(3, 3, OK)],
            [(5, 5, OK)],
        ]
        assert await world.start_offset() == 5


async def test_a_result_comes_only_when_it_is_durable(world: World) -> None:
    await world.publish(1)
    async with stream(world, credit=1) as consumer:
        await consumer.got_offsets(0)
        world.persister.open.clear()
        (ack_id,) = consumer.say(said(0))
        await eventually(lambda: world.persister.writes)
        await settle()
        assert not consumer.outcome(ack_id)
        world.persister.open.set()
        await consumer.got(lambda: consumer.outcome(ack_id) == [(0, 0, OK)])


async def test_of_a_run_only_what_is_refused_is_refused(world: World) -> None:
    await world.publish(10)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(*range(10))
        await consumer.told(said(4, 5, RELEASE), said(8, kind=REJECT))
        assert await consumer.told(said(0, 9)) == [
            (0, 3, OK),
            (4, 5, STATE),
            (6, 7, OK),
            (8, 8, STATE),
            (9, 9, OK),
        ]


async def test_of_many_acknowledgements_only_the_refused_are_refused(world: World) -> None:
    await world.publish(20)
    async with stream(world, credit=20) as consumer:
        await consumer.got_offsets(*range(20))
        await consumer.told(said(7), said(13))
        outcomes = await consumer.told(*(said(offset) for offset in range(20)), said(40), said(3, kind=9))
        wrong = {(7, 7, STATE), (13, 13, STATE), (40, 40, REQUEST), (3, 3, REQUEST)}
        assert (
            set(outcomes) == {(offset, offset, OK) for offset in range(20) if offset not in (7, 13)} | wrong
        )


async def test_what_is_said_first_of_a_record_counts(world: World) -> None:
    await world.publish(1)
    async with stream(world, credit=1) as consumer:
        await consumer.got_offsets(0)
        first, second = consumer.say(said(0, kind=REJECT), said(0, kind=ACCEPT))
        await consumer.got(lambda: len(consumer.results) == 2)
        assert (consumer.outcome(first), consumer.outcome(second)) == ([(0, 0, OK)], [(0, 0, STATE)])


async def test_a_range_reaching_far_below_and_above_is_divided_by_runs_not_by_offsets(world: World) -> None:
    await world.publish(10)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(*range(10))
        token = consumer.token(0)
        await consumer.told(said(0, 4))
        assert await consumer.told(said(0, 2**62, lock_token=token)) == [
            (0, 4, STATE),
            (5, 9, OK),
            (10, 2**62, REQUEST),
        ]


@pytest.mark.parametrize("how", ["accepted", "expired", "passed on"])
async def test_a_late_token_is_refused_whatever_became_of_the_record(world: World, how: str) -> None:
    await world.publish(1)
    async with stream(world, credit=1) as consumer:
        await consumer.got_offsets(0)
        token = consumer.token(0)
        if how == "accepted":
            await consumer.told(said(0))
        else:
            await consumer.got(lambda: consumer.lost)
            if how == "passed on":
                consumer.grant(1)
                await consumer.got_offsets(0, 0)
        assert await consumer.told(said(0, lock_token=token)) == [(0, 0, STATE)]
        assert consumer.results[-1].error_message.startswith("offset 0: ")


async def test_a_write_that_fails_is_told_and_the_records_can_be_acknowledged_again(world: World) -> None:
    await world.publish(3)
    async with stream(world, credit=3) as consumer:
        await consumer.got_offsets(0, 1, 2)
        world.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        refused = await consumer.told(said(0), said(2))
        assert refused == [(x, x, ErrorCode.COORDINATOR_NOT_AVAILABLE) for x in (0, 2)]
        assert await consumer.told(said(0, 2)) == [(0, 2, OK)]


async def test_a_partition_that_was_never_served_is_refused(world: World) -> None:
    async with stream(world) as consumer:
        assert await consumer.told(said(0, 3, partition=5)) == [(0, 3, STATE)]


async def test_a_renewal_is_told_with_its_new_deadline(world: World) -> None:
    await world.publish(2)
    async with stream(world, credit=2) as consumer:
        await consumer.got_offsets(0, 1)
        await asyncio.sleep(20)
        (ack_id,) = consumer.say(said(0, kind=RENEW))
        await consumer.got(lambda: consumer.outcome(ack_id))
        deadline = consumer.results[-1].lock_deadline_ms / 1000
        assert deadline == pytest.approx(asyncio.get_running_loop().time() + 30, abs=0.1)
        await consumer.got(lambda: consumer.lost)
        assert [(lost.first_offset, lost.last_offset) for lost in consumer.lost] == [(1, 1)]
        assert await consumer.told(said(0)) == [(0, 0, OK)]


async def test_a_renewal_that_is_refused_has_no_deadline(world: World) -> None:
    await world.publish(1)
    async with stream(world, credit=1) as consumer:
        await consumer.got_offsets(0)
        await consumer.told(said(0))
        (ack_id,) = consumer.say(said(0, kind=RENEW, lock_token=1))
        await consumer.got(lambda: consumer.outcome(ack_id) == [(0, 0, STATE)])
        assert consumer.results[-1].lock_deadline_ms == 0


async def test_a_release_with_a_delay_keeps_the_record_back(world: World) -> None:
    await world.publish(2)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(0, 1)
        before = asyncio.get_running_loop().time()
        assert await consumer.told(said(0, kind=RELEASE, delay_ms=5000)) == [(0, 0, OK)]
        await consumer.got_offsets(0, 0, 1)
        assert 5 <= asyncio.get_running_loop().time() - before < 5.1


@pytest.mark.parametrize(("kind", "delay_ms"), [(RELEASE, -1), (RELEASE, 86_400_001), (ACCEPT, 5)])
async def test_delays_out_of_place_are_refused(world: World, kind: int, delay_ms: int) -> None:
    await world.publish(4)
    async with stream(world, credit=4) as consumer:
        await consumer.got_offsets(*range(4))
        refused = await consumer.told(said(0, 3, kind, delay_ms=delay_ms), said(1, kind=RELEASE))
        assert refused == [(0, 3, REQUEST), (1, 1, OK)]


@pytest.mark.parametrize("kind", [0, -1, 6])
async def test_who_does_not_say_what_became_of_a_record_still_has_it(world: World, kind: int) -> None:
    """Kafka's 0 would end it; over gRPC a type that nobody set is 0."""
    await world.publish(4)
    async with stream(world, credit=4) as consumer:
        await consumer.got_offsets(*range(4))
        told = await consumer.told(said(0, 1, kind), said(2), said(3, kind=kind))
        assert set(told) == {(0, 1, REQUEST), (2, 2, OK), (3, 3, REQUEST)}
        assert await consumer.told(said(0, 1), said(3)) == [(0, 1, OK), (3, 3, OK)]


async def test_offsets_without_a_record_are_ended(world: World) -> None:
    await world.publish(2)
    async with stream(world, credit=2) as consumer:
        await consumer.got_offsets(0, 1)
        assert await consumer.told(said(0, kind=delivery.ACKNOWLEDGE_TYPE_GAP)) == [(0, 0, OK)]
        share_partition = await world.share_partition()
        assert share_partition.core.start_offset == 1


async def test_the_reason_of_a_rejection_is_logged_and_cut_short(world: World) -> None:
    await world.publish(2)
    async with stream(world, credit=2) as consumer:
        await consumer.got_offsets(0, 1)
        with capture_logs() as logs:
            await consumer.told(
                said(0, kind=REJECT, reason="no such account" + "!" * 10_000),
                said(1, reason="of no interest"),
            )
    (entry,) = [entry for entry in logs if entry["event"] == "record rejected"]
    assert (entry["group"], entry["offset"]) == (GROUP, 0)
    assert entry["reason"].startswith("no such account!")
    assert len(entry["reason"]) == 500


# --- records that nobody looked at


async def test_what_nobody_looked_at_is_given_back_at_once_and_not_counted(world: World) -> None:
    await world.publish(10)
    async with stream(world, credit=10) as first, stream(world, member="m2") as second:
        await first.got_offsets(*range(10))
        world.persister.open.clear()  # nothing is written
        assert await first.told(said(2, 9, RELEASE, unseen=True)) == [(2, 9, OK)]
        second.grant(8)
        await second.got_offsets(*range(2, 10))
        assert second.runs[0][1].delivery_count == 1
        assert await first.told(said(0, 2, RELEASE, unseen=True)) == [(0, 1, OK), (2, 2, STATE)]
        world.persister.open.set()


@pytest.mark.parametrize("fields", [{"kind": ACCEPT}, {"kind": RELEASE, "delay_ms": 5}])
async def test_only_a_plain_release_can_be_of_what_nobody_looked_at(
    world: World, fields: dict[str, int]
) -> None:
    await world.publish(1)
    async with stream(world, credit=1) as consumer:
        await consumer.got_offsets(0)
        assert await consumer.told(said(0, 0, unseen=True, **fields)) == [(0, 0, REQUEST)]
        assert await consumer.told(said(0)) == [(0, 0, OK)]


@pytest.mark.parametrize(("unseen", "count"), [(True, 1), (False, 2)])
@pytest.mark.parametrize("politely", [True, False])
async def test_what_a_stream_leaves_behind_counts_unless_it_is_told_otherwise(
    world: World, unseen: bool, count: int, politely: bool
) -> None:
    await world.publish(5)
    async with stream(world, credit=5) as first, stream(world, member="m2", credit=0) as second:
        await first.got_offsets(*range(5))
        await first.told(said(0))
        first.send(pb.DeliverRequest(rest_unseen=unseen))
        await settle()
        if politely:
            first.finish()
        else:
            await first.break_off()
        second.grant(5)
        await second.got_offsets(*range(1, 5))
        assert {run.delivery_count for _, run in second.runs} == {count}


# --- notices


async def test_a_lock_that_runs_out_is_told_and_the_record_goes_to_another(world: World) -> None:
    await world.publish(3)
    async with stream(world, credit=3) as first, stream(world, member="m2", credit=3) as second:
        await first.got(lambda: len(first.records) + len(second.records) == 3)
        loser, other = (first, second) if first.records else (second, first)
        await loser.got(lambda: loser.lost)
        lost = loser.lost[0]
        assert (lost.topic_id, lost.partition, lost.first_offset, lost.last_offset) == (TOPIC, 0, 0, 2)
        assert lost.lock_token == loser.token(0)
        await other.got_offsets(0, 1, 2)
        assert other.runs[0][1].delivery_count == 2


async def test_who_asked_for_it_gets_no_more_after_a_lost_lock_before_saying_so(world: World) -> None:
    await world.publish(1)
    async with stream(world, credit=100, pause_on_lock_lost=1) as consumer:
        await consumer.got(lambda: consumer.lost)
        await world.publish(1)
        consumer.grant(1)
        await asyncio.sleep(100)  # of virtual time: some locks' durations
        assert consumer.offsets == [0]
        consumer.send(pb.DeliverRequest(resume=True))
        await consumer.got_offsets(0, 0, 1)
        assert [run.delivery_count for _, run in consumer.runs] == [1, 2, 1]


async def test_when_the_state_was_changed_by_another_the_locks_are_lost_and_it_is_loaded_anew(
    world: World,
) -> None:
    await world.publish(10)
    async with stream(world, credit=100) as consumer:
        await consumer.got_offsets(*range(10))
        await world.initialize(state_epoch=2, start=7)
        refused = await consumer.told(said(0, 4))
        assert refused == [(0, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        await consumer.got_offsets(*range(10), 7, 8, 9)
        assert [(lost.first_offset, lost.last_offset) for lost in consumer.lost] == [(0, 9)]
        assert await consumer.told(said(7, 9)) == [(7, 9, OK)]


async def test_a_partition_that_is_handed_over_is_told_and_reported(world: World) -> None:
    await world.publish(2)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(0, 1)
        await world.lose()
        await consumer.got(lambda: consumer.lost and consumer.problems)
        assert await consumer.told(said(0, 1)) == [(0, 1, STATE)]


async def test_a_read_that_is_under_way_when_the_state_is_forgotten_is_begun_anew(world: World) -> None:
    await world.publish(2)
    await world.chill()
    world.records.open.clear()
    async with stream(world, credit=10) as consumer:
        share_partition = await world.share_partition()
        await eventually(lambda: share_partition._reading)
        share_partition.retire()
        await settle()
        world.records.open.set()
        await consumer.got_offsets(0, 1)


async def test_a_read_that_others_were_quicker_with_ends_without_records(world: World) -> None:
    await world.publish(2)
    await world.chill()
    world.records.open.clear()
    async with stream(world, credit=10) as first, stream(world, member="m2", credit=10) as second:
        share_partition = await world.share_partition()
        await eventually(lambda: share_partition._reading)
        await settle()
        world.records.open.set()
        await first.got(lambda: first.records or second.records)
        await settle()
        assert len(first.records) + len(second.records) == 2


# --- records at risk


async def test_records_that_failed_often_come_alone_and_nothing_beside_them(world: World) -> None:
    await world.configure("share.delivery.count.limit", "5")
    await world.publish(4)
    async with stream(world, credit=100) as consumer:
        for _ in range(3):
            await consumer.got(lambda: consumer.offsets[-4:] == [0, 1, 2, 3])
            await consumer.told(said(0, 3, RELEASE))
            await settle()
        assert consumer.offsets[12:] == [0, 1]
        await world.publish(1)
        await settle()
        assert consumer.offsets[12:] == [0, 1]
        await consumer.told(said(0))
        await settle()
        assert consumer.offsets[12:] == [0, 1]
        await consumer.told(said(1))
        await consumer.got(lambda: consumer.offsets[14:] == [2, 3])
        await consumer.told(said(2, 3))
        await consumer.got(lambda: consumer.offsets[16:] == [4])


# --- the end


async def test_results_of_what_was_asked_come_after_the_client_is_done_sending(world: World) -> None:
    await world.publish(3)
    async with stream(world, credit=10) as consumer:
        await consumer.got_offsets(0, 1, 2)
        world.persister.open.clear()
        (ack_id,) = consumer.say(said(0, 1))
        consumer.finish()
        await eventually(lambda: world.persister.writes)
        await world.publish(5)
        await settle()
        world.persister.open.set()
        await eventually(consumer.task.done)
        assert consumer.outcome(ack_id) == [(0, 1, OK)]
        assert consumer.offsets == [0, 1, 2]
    assert await world.start_offset() == 2


async def test_a_stream_that_ends_releases_what_it_holds(world: World) -> None:
    await world.publish(3)
    async with stream(world, credit=10) as first:
        await first.got_offsets(0, 1, 2)
        await first.told(said(1))
        await first.break_off()
        async with stream(world, credit=10) as second:
            await second.got_offsets(0, 2)
            assert {run.delivery_count for _, run in second.runs} == {2}


async def test_the_end_of_a_members_old_stream_leaves_its_new_one_alone(world: World) -> None:
    async with stream(world, credit=1) as old:
        await world.publish(1)
        await old.got_offsets(0)
        async with stream(world, credit=10) as new:
            await world.publish(1)
            await new.got_offsets(1)
            assert await new.told(said(0)) == [(0, 0, STATE)]
            await old.break_off()
            await new.got_offsets(0, 1)
            assert await new.told(said(1), said(0)) == [(0, 0, OK), (1, 1, OK)]


@pytest.mark.parametrize("at", ["load", "retry", "read", "idle"])
async def test_a_stream_that_ends_leaves_nothing_behind(world: World, at: str) -> None:
    await world.publish(1)
    await world.chill()
    if at == "load":
        world.persister.open.clear()
    if at == "read":
        world.records.away = True
    async with stream(world, credit=10, group="new" if at == "retry" else GROUP) as consumer:
        if at == "load":
            await eventually(lambda: world.persister.reads)
        elif at == "idle":
            await consumer.got_offsets(0)
        else:
            await consumer.got(lambda: consumer.problems)
    world.persister.open.set()
    world.records.away = False
    await settle()
    names = {str(task.get_coro()) for task in asyncio.all_tasks()}
    assert not {name for name in names if "Delivery" in name or "ShareGroup" in name}
    assert not [
        loaded for led in world.leadership.partitions() for loaded in led.loaded() if loaded._lock_listeners
    ]


async def test_a_client_that_does_not_read_is_not_read_from(world: World) -> None:
    await world.publish(10)
    with patch.object(send_queue, "UNSENT_ENTRIES", 4):
        async with stream(world, credit=10) as consumer:
            await consumer.got_offsets(*range(10))
            consumer.reading.clear()
            for offset in range(9):
                consumer.say(said(offset))
                await settle()
            waiting = consumer._requests.qsize()
            assert 0 < waiting < 9
            consumer.reading.set()
            await consumer.got(lambda: len(consumer.results) == 9)


async def test_a_client_whose_requests_break_ends_its_stream(world: World) -> None:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        yield pb.DeliverRequest(open=pb.DeliverRequest.Open(group_id=GROUP, member_id="m"))
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        async for _ in world.stub.Deliver(requests()):
            pass


@pytest.mark.parametrize(
    ("opening", "field"),
    [
        ({}, "open"),
        ({"group_id": "g"}, "open"),
        ({"member_id": "m"}, "open"),
        ({"group_id": "g", "member_id": "m", "acquire_mode": 5}, "acquire_mode"),
    ],
)
async def test_a_stream_must_be_opened(world: World, opening: dict[str, Any], field: str) -> None:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        yield pb.DeliverRequest(open=pb.DeliverRequest.Open(**opening))

    with pytest.raises(KafkaError) as refused:
        async for _ in world.stub.Deliver(requests()):
            pass
    assert refused.value.code is REQUEST
    assert [violation.field for violation in refused.value.violations] == [field]


async def test_a_stream_without_a_first_message_is_refused(world: World) -> None:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        return
        yield

    with pytest.raises(KafkaError):
        async for _ in world.stub.Deliver(requests()):
            pass
