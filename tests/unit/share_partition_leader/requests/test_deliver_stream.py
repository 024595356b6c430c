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
from sharebroker_server.share_partition_leader.requests import deliver_stream, stream_messages
from sharebroker_server.share_partition_leader.share_partition.share_group_partition import (
    ShareGroupPartition,
)
from tests.testkit.waiting import eventually
from tests.unit.share_partition_leader.harness import (
    ACCEPT,
    GROUP,
    NAME,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    Harness,
    code,
)
from tests.unit.share_partition_leader.harness import harness as started
from tests.unit.share_partition_leader.streams import ack, stream
from tests.unit.share_partition_leader.virtual_time import settle

OK, STATE, REQUEST = ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST


# --- records and credit


async def test_records_are_delivered_as_they_are_published(harness: Harness) -> None:
    async with stream(harness, credit=100) as consumer:
        for first in (0, 3, 6):
            await harness.publish(3)
            await consumer.got_offsets(*range(first + 3))
    assert {each.topic for message in consumer.messages for each in message.deliveries} == {NAME}


async def test_events_of_one_loop_iteration_are_one_message(harness: Harness) -> None:
    await harness.publish(5)
    async with stream(harness, credit=5) as consumer:
        await consumer.got_offsets(*range(5))
        before = len(consumer.messages)
        await consumer.acknowledge_all(*(ack(offset) for offset in range(5)))
        assert len(consumer.messages) == before + 1


async def test_records_are_limited_by_credit(harness: Harness) -> None:
    for _ in range(10):
        await harness.publish(1)
    async with stream(harness, credit=3) as consumer:
        await consumer.got_offsets(0, 1, 2)
        await settle()
        assert consumer.offsets == [0, 1, 2]
        consumer.grant(2)
        await consumer.got_offsets(*range(5))


async def test_credit_can_be_withdrawn(harness: Harness) -> None:
    async with stream(harness, credit=5) as consumer:
        consumer.grant(-5)
        await harness.publish(1)
        await settle()
        assert not consumer.records
        consumer.grant(1)
        await consumer.got_offsets(0)


async def test_partitions_are_loaded_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver_stream, "LOADS_AT_ONCE", 2)
    async with started() as harness:
        await harness.create_topic(5)
        for partition in range(5):
            await harness.publish(1, partition)
        harness.persister.open.clear()
        async with stream(harness, partitions=range(5), credit=10) as consumer:
            await eventually(lambda: harness.persister.reads)
            await settle()
            assert harness.persister.reads == 2
            harness.persister.open.set()
            await eventually(lambda: len(consumer.records) == 5)


@pytest.mark.parametrize(("mode", "got"), [(0, 10), (1, 4)])
async def test_acquire_mode_decides_whether_a_batch_is_split(harness: Harness, mode: int, got: int) -> None:
    await harness.publish(10)
    async with stream(harness, credit=4, acquire_mode=mode) as consumer:
        await consumer.got_offsets(*range(got))


async def test_acquired_ranges_have_the_requested_size(harness: Harness) -> None:
    for _ in range(4):
        await harness.publish(5)
    async with stream(harness, credit=20, batch_size=10) as consumer:
        await consumer.got_offsets(*range(20))
        assert [(run.first_offset, run.last_offset) for _, run in consumer.runs] == [(0, 9), (10, 19)]


async def test_partitions_are_served_round_robin() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=3)
        for partition in range(3):
            await harness.publish(1, partition, size=600_000)
            await harness.publish(1, partition, size=600_000)
        async with stream(harness, partitions=range(3)) as consumer:
            await settle()
            consumer.grant(6)
            await consumer.got(lambda: len(consumer.records) == 6)
            assert [sorted(consumer.records[:3]), sorted(consumer.records[3:])] == [
                [(0, 0), (1, 0), (2, 0)],
                [(0, 1), (1, 1), (2, 1)],
            ]


async def test_message_ends_at_its_size_limit(harness: Harness) -> None:
    for _ in range(6):
        await harness.publish(1, size=600_000)
    with patch.object(stream_messages, "MESSAGE_BYTES", 1_000_000):
        async with stream(harness, credit=6) as consumer:
            await consumer.got_offsets(*range(6))
            assert [len(message.deliveries) for message in consumer.messages] == [2, 2, 2]


@pytest.mark.parametrize("cached", [True, False])
async def test_streams_that_hold_much_acquire_one_batch_at_once(harness: Harness, cached: bool) -> None:
    for _ in range(6):
        await harness.publish(1, size=100_000)
    if not cached:
        await harness.evict_hot_cache()
    with patch.object(deliver_stream, "UNSENT_BYTES", 0):
        async with stream(harness, credit=6) as consumer:
            await consumer.got_offsets(*range(6))
            assert [len(message.deliveries) for message in consumer.messages] == [1] * 6
            assert all(len(sent.record_batches) < 200_000 for m in consumer.messages for sent in m.deliveries)
    assert harness.leadership.unsent_bytes == 0


async def test_records_outside_the_hot_cache_are_read_from_the_store(harness: Harness) -> None:
    for _ in range(3):
        await harness.publish(2)
    await harness.evict_hot_cache()
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(*range(6))
        await harness.publish(1)
        await consumer.got_offsets(*range(7))


async def test_read_failure_is_reported_and_retried(harness: Harness) -> None:
    await harness.publish(2)
    await harness.evict_hot_cache()
    harness.records.away = True
    async with stream(harness, credit=10) as consumer:
        await consumer.got(lambda: consumer.problems)
        assert code(consumer.problems[0]) is ErrorCode.KAFKA_STORAGE_ERROR
        harness.records.away = False
        await consumer.got_offsets(0, 1)


async def test_log_taken_over_is_reported_and_retried(harness: Harness) -> None:
    await harness.publish(1)
    async with stream(harness) as consumer:
        await eventually(lambda: harness.persister.reads)
        await (await harness.leadership.led(TOPIC, 0)).own_log.close()
        consumer.grant(1)
        await consumer.got(lambda: len(consumer.problems) > 1)
        assert {code(problem) for problem in consumer.problems} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


# --- which partitions


async def test_replaced_partitions_keep_their_locks() -> None:
    async with started() as harness:
        await harness.create_topic(partitions=2)
        await harness.publish(2, 0)
        await harness.publish(2, 1)
        async with stream(harness, partitions=[0], credit=100) as consumer:
            await consumer.got(lambda: consumer.records == [(0, 0), (0, 1)])
            consumer.serve(1)
            await consumer.got(lambda: (1, 1) in consumer.records)
            await harness.publish(2, 0)
            await settle()
            assert len(consumer.records) == 4
            assert await consumer.acknowledge_all(ack(0, 1, partition=0)) == [(0, 1, OK)]
            consumer.serve(0, 1)
            await consumer.got(lambda: (0, 3) in consumer.records)


async def test_partition_removed_during_its_load_is_not_delivered(harness: Harness) -> None:
    await harness.publish(1)
    harness.persister.open.clear()
    async with stream(harness, credit=10) as consumer:
        await eventually(lambda: harness.persister.reads)
        consumer.serve()
        await settle()
        harness.persister.open.set()
        await settle()
        assert not consumer.records
        consumer.serve(0)
        await consumer.got_offsets(0)


async def test_partition_removed_during_a_retry_is_dropped(harness: Harness) -> None:
    async with stream(harness, credit=10, group="new") as consumer:
        await consumer.got(lambda: consumer.problems)
        consumer.serve()
        await asyncio.sleep(10)
        reads = harness.persister.reads
        await asyncio.sleep(10)
        assert harness.persister.reads == reads


async def test_load_is_retried_until_the_state_exists(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=10, group="new") as consumer:
        await consumer.got(lambda: consumer.problems)
        assert code(consumer.problems[0]) is ErrorCode.LEADER_NOT_AVAILABLE
        await harness.initialize(group="new")
        await consumer.got_offsets(0, 1)


async def test_deleted_group_is_reported_once_until_assigned_again(harness: Harness) -> None:
    await harness.publish(2)
    harness.persister.on_read.append(KafkaError(ErrorCode.GROUP_ID_NOT_FOUND))
    async with stream(harness, credit=10) as consumer:
        await consumer.got(lambda: consumer.problems)
        await asyncio.sleep(100)
        assert [code(problem) for problem in consumer.problems] == [ErrorCode.GROUP_ID_NOT_FOUND]
        assert not consumer.records
        consumer.serve(0)
        await consumer.got_offsets(0, 1)


async def test_unexpected_error_is_reported_until_assigned_again(harness: Harness) -> None:
    await harness.publish(2)
    with patch.object(ShareGroupPartition, "acquire_uncached", side_effect=ZeroDivisionError):
        await harness.evict_hot_cache()
        async with stream(harness, credit=10) as consumer:
            with capture_logs() as logs:
                await consumer.got(lambda: consumer.problems)
            assert code(consumer.problems[0]) is ErrorCode.UNKNOWN_SERVER_ERROR
            assert "delivery failed" in {entry["event"] for entry in logs}
            await asyncio.sleep(100)
            assert len(consumer.problems) == 1


async def test_partition_of_another_leader_is_reported(harness: Harness) -> None:
    await harness.share_partition()
    await harness.hand_over()
    async with stream(harness, credit=10) as consumer:
        await consumer.got(lambda: consumer.problems)
        problem = consumer.problems[0]
        assert (problem.topic_id, problem.partition) == (TOPIC, 0)
        assert code(problem) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- acknowledgements


async def test_each_acknowledgement_has_its_own_result(harness: Harness) -> None:
    await harness.publish(6)
    async with stream(harness, credit=6) as consumer:
        await consumer.got_offsets(*range(6))
        ids = consumer.acknowledge(ack(4), ack(0), ack(1, 2), ack(3, kind=REJECT), ack(5, kind=RELEASE))
        await consumer.got(lambda: len(consumer.results) == 5)
        assert [consumer.outcome(ack_id) for ack_id in ids] == [
            [(4, 4, OK)],
            [(0, 0, OK)],
            [(1, 2, OK)],
            [(3, 3, OK)],
            [(5, 5, OK)],
        ]
        assert await harness.start_offset() == 5


async def test_result_is_sent_when_durable(harness: Harness) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1) as consumer:
        await consumer.got_offsets(0)
        harness.persister.open.clear()
        (ack_id,) = consumer.acknowledge(ack(0))
        await eventually(lambda: harness.persister.writes)
        await settle()
        assert not consumer.outcome(ack_id)
        harness.persister.open.set()
        await consumer.got(lambda: consumer.outcome(ack_id) == [(0, 0, OK)])


async def test_range_is_divided_to_its_rejected_records(harness: Harness) -> None:
    await harness.publish(10)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(*range(10))
        await consumer.acknowledge_all(ack(4, 5, RELEASE), ack(8, kind=REJECT))
        assert await consumer.acknowledge_all(ack(0, 9)) == [
            (0, 3, OK),
            (4, 5, STATE),
            (6, 7, OK),
            (8, 8, STATE),
            (9, 9, OK),
        ]


async def test_acks_are_divided_to_the_rejected_ones(harness: Harness) -> None:
    await harness.publish(20)
    async with stream(harness, credit=20) as consumer:
        await consumer.got_offsets(*range(20))
        await consumer.acknowledge_all(ack(7), ack(13))
        outcomes = await consumer.acknowledge_all(
            *(ack(offset) for offset in range(20)), ack(40), ack(3, kind=9)
        )
        wrong = {(7, 7, STATE), (13, 13, STATE), (40, 40, REQUEST), (3, 3, REQUEST)}
        assert (
            set(outcomes) == {(offset, offset, OK) for offset in range(20) if offset not in (7, 13)} | wrong
        )


async def test_first_ack_of_a_record_counts(harness: Harness) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1) as consumer:
        await consumer.got_offsets(0)
        first, second = consumer.acknowledge(ack(0, kind=REJECT), ack(0, kind=ACCEPT))
        await consumer.got(lambda: len(consumer.results) == 2)
        assert (consumer.outcome(first), consumer.outcome(second)) == ([(0, 0, OK)], [(0, 0, STATE)])


async def test_wide_range_is_divided_by_runs_and_not_by_offsets(
    harness: Harness,
) -> None:
    await harness.publish(10)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(*range(10))
        token = consumer.token(0)
        await consumer.acknowledge_all(ack(0, 4))
        assert await consumer.acknowledge_all(ack(0, 2**62, lock_token=token)) == [
            (0, 4, STATE),
            (5, 9, OK),
            (10, 2**62, REQUEST),
        ]


@pytest.mark.parametrize("how", ["accepted", "expired", "passed on"])
async def test_old_lock_token_is_rejected_in_any_state(harness: Harness, how: str) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1) as consumer:
        await consumer.got_offsets(0)
        token = consumer.token(0)
        if how == "accepted":
            await consumer.acknowledge_all(ack(0))
        else:
            await consumer.got(lambda: consumer.lost)
            if how == "passed on":
                consumer.grant(1)
                await consumer.got_offsets(0, 0)
        assert await consumer.acknowledge_all(ack(0, lock_token=token)) == [(0, 0, STATE)]
        assert consumer.results[-1].error_message.startswith("offset 0: ")


async def test_failed_write_can_be_acknowledged_again(harness: Harness) -> None:
    await harness.publish(3)
    async with stream(harness, credit=3) as consumer:
        await consumer.got_offsets(0, 1, 2)
        harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        refused = await consumer.acknowledge_all(ack(0), ack(2))
        assert refused == [(x, x, ErrorCode.COORDINATOR_NOT_AVAILABLE) for x in (0, 2)]
        assert await consumer.acknowledge_all(ack(0, 2)) == [(0, 2, OK)]


async def test_ack_of_an_unserved_partition_is_rejected(harness: Harness) -> None:
    async with stream(harness) as consumer:
        assert await consumer.acknowledge_all(ack(0, 3, partition=5)) == [(0, 3, STATE)]


async def test_renewal_returns_its_new_deadline(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=2) as consumer:
        await consumer.got_offsets(0, 1)
        await asyncio.sleep(20)
        (ack_id,) = consumer.acknowledge(ack(0, kind=RENEW))
        await consumer.got(lambda: consumer.outcome(ack_id))
        deadline = consumer.results[-1].lock_deadline_ms / 1000
        assert deadline == pytest.approx(asyncio.get_running_loop().time() + 30, abs=0.1)
        await consumer.got(lambda: consumer.lost)
        assert [(lost.first_offset, lost.last_offset) for lost in consumer.lost] == [(1, 1)]
        assert await consumer.acknowledge_all(ack(0)) == [(0, 0, OK)]


async def test_locks_have_the_length_of_the_stream_or_of_the_renewal(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=2, lock_ms=120_000) as consumer:
        await consumer.got_offsets(0, 1)
        now = asyncio.get_running_loop().time
        assert consumer.runs[0][1].lock_deadline_ms / 1000 == pytest.approx(now() + 120, abs=0.1)
        ids = consumer.acknowledge(ack(0, kind=RENEW), ack(1, kind=RENEW, lock_ms=3_600_000))
        await consumer.got(lambda: len(consumer.results) == 2)
        lengths = {result.id: result.lock_deadline_ms / 1000 - now() for result in consumer.results}
        assert [lengths[number] for number in ids] == [
            pytest.approx(120, abs=0.1),
            pytest.approx(3600, abs=0.1),
        ]
        await asyncio.sleep(119)
        assert not consumer.lost
        await consumer.got(lambda: consumer.lost)
        assert [lost.first_offset for lost in consumer.lost] == [0]


@pytest.mark.parametrize(
    ("kind", "lock_ms"), [(RENEW, 999), (RENEW, -1), (RENEW, 43_200_001), (ACCEPT, 60_000)]
)
async def test_invalid_lock_lengths_are_rejected(harness: Harness, kind: int, lock_ms: int) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1) as consumer:
        await consumer.got_offsets(0)
        assert await consumer.acknowledge_all(ack(0, kind=kind, lock_ms=lock_ms)) == [(0, 0, REQUEST)]
        assert await consumer.acknowledge_all(ack(0)) == [(0, 0, OK)]


async def test_blameless_releases_do_not_count(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=100) as consumer:
        await consumer.got_offsets(0, 1)
        for times in range(1, 8):
            assert await consumer.acknowledge_all(ack(0, 1, RELEASE, blameless=True)) == [(0, 1, OK)]
            await consumer.got_offsets(*[0, 1] * (times + 1))
        assert {run.delivery_count for _, run in consumer.runs} == {1}
        assert await consumer.acknowledge_all(ack(0, blameless=True)) == [(0, 0, REQUEST)]


async def test_rejected_renewal_has_no_deadline(harness: Harness) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1) as consumer:
        await consumer.got_offsets(0)
        await consumer.acknowledge_all(ack(0))
        (ack_id,) = consumer.acknowledge(ack(0, kind=RENEW, lock_token=1))
        await consumer.got(lambda: consumer.outcome(ack_id) == [(0, 0, STATE)])
        assert consumer.results[-1].lock_deadline_ms == 0


async def test_delayed_release_delays_the_record(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(0, 1)
        before = asyncio.get_running_loop().time()
        assert await consumer.acknowledge_all(ack(0, kind=RELEASE, delay_ms=5000)) == [(0, 0, OK)]
        await consumer.got_offsets(0, 0, 1)
        assert 5 <= asyncio.get_running_loop().time() - before < 5.1


@pytest.mark.parametrize(("kind", "delay_ms"), [(RELEASE, -1), (RELEASE, 86_400_001), (ACCEPT, 5)])
async def test_invalid_delays_are_rejected(harness: Harness, kind: int, delay_ms: int) -> None:
    await harness.publish(4)
    async with stream(harness, credit=4) as consumer:
        await consumer.got_offsets(*range(4))
        refused = await consumer.acknowledge_all(ack(0, 3, kind, delay_ms=delay_ms), ack(1, kind=RELEASE))
        assert refused == [(0, 3, REQUEST), (1, 1, OK)]


@pytest.mark.parametrize("kind", [0, -1, 6])
async def test_ack_without_type_keeps_the_lock(harness: Harness, kind: int) -> None:
    """Kafka's type 0 would end the lock; over gRPC an unset type is 0."""
    await harness.publish(4)
    async with stream(harness, credit=4) as consumer:
        await consumer.got_offsets(*range(4))
        results = await consumer.acknowledge_all(ack(0, 1, kind), ack(2), ack(3, kind=kind))
        assert set(results) == {(0, 1, REQUEST), (2, 2, OK), (3, 3, REQUEST)}
        assert await consumer.acknowledge_all(ack(0, 1), ack(3)) == [(0, 1, OK), (3, 3, OK)]


async def test_gaps_are_finished(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=2) as consumer:
        await consumer.got_offsets(0, 1)
        assert await consumer.acknowledge_all(ack(0, kind=delivery.ACKNOWLEDGE_TYPE_GAP)) == [(0, 0, OK)]
        share_partition = await harness.share_partition()
        assert share_partition.core.start_offset == 1


async def test_reject_reason_is_logged_and_truncated(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=2) as consumer:
        await consumer.got_offsets(0, 1)
        with capture_logs() as logs:
            await consumer.acknowledge_all(
                ack(0, kind=REJECT, reason="no such account" + "!" * 10_000),
                ack(1, reason="of no interest"),
            )
    (entry,) = [entry for entry in logs if entry["event"] == "record rejected"]
    assert (entry["group"], entry["offset"]) == (GROUP, 0)
    assert entry["reason"].startswith("no such account!")
    assert len(entry["reason"]) == 500


# --- unseen records


async def test_unseen_records_are_undone_at_once(harness: Harness) -> None:
    await harness.publish(10)
    async with stream(harness, credit=10) as first, stream(harness, member="m2") as second:
        await first.got_offsets(*range(10))
        harness.persister.open.clear()  # nothing is written
        assert await first.acknowledge_all(ack(2, 9, RELEASE, unseen=True)) == [(2, 9, OK)]
        second.grant(8)
        await second.got_offsets(*range(2, 10))
        assert second.runs[0][1].delivery_count == 1
        assert await first.acknowledge_all(ack(0, 2, RELEASE, unseen=True)) == [(0, 1, OK), (2, 2, STATE)]
        harness.persister.open.set()


@pytest.mark.parametrize("fields", [{"kind": ACCEPT}, {"kind": RELEASE, "delay_ms": 5}])
async def test_unseen_needs_a_release_without_delay(harness: Harness, fields: dict[str, int]) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1) as consumer:
        await consumer.got_offsets(0)
        assert await consumer.acknowledge_all(ack(0, 0, unseen=True, **fields)) == [(0, 0, REQUEST)]
        assert await consumer.acknowledge_all(ack(0)) == [(0, 0, OK)]


@pytest.mark.parametrize(("unseen", "count"), [(True, 1), (False, 2)])
@pytest.mark.parametrize("politely", [True, False])
async def test_records_held_at_the_end_count_unless_rest_unseen(
    harness: Harness, unseen: bool, count: int, politely: bool
) -> None:
    await harness.publish(5)
    async with stream(harness, credit=5) as first, stream(harness, member="m2", credit=0) as second:
        await first.got_offsets(*range(5))
        await first.acknowledge_all(ack(0))
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


async def test_lock_timeout_is_reported_and_the_record_redelivered(harness: Harness) -> None:
    await harness.publish(3)
    async with stream(harness, credit=3) as first, stream(harness, member="m2", credit=3) as second:
        await first.got(lambda: len(first.records) + len(second.records) == 3)
        loser, other = (first, second) if first.records else (second, first)
        await loser.got(lambda: loser.lost)
        lost = loser.lost[0]
        assert (lost.topic_id, lost.partition, lost.first_offset, lost.last_offset) == (TOPIC, 0, 0, 2)
        assert lost.lock_token == loser.token(0)
        await other.got_offsets(0, 1, 2)
        assert other.runs[0][1].delivery_count == 2


async def test_lost_lock_pauses_the_stream_until_resumed(harness: Harness) -> None:
    await harness.publish(1)
    async with stream(harness, credit=100, pause_on_lock_lost=1) as consumer:
        await consumer.got(lambda: consumer.lost)
        await harness.publish(1)
        consumer.grant(1)
        await asyncio.sleep(100)  # of virtual time: some locks' durations
        assert consumer.offsets == [0]
        consumer.send(pb.DeliverRequest(resume=True))
        await consumer.got_offsets(0, 0, 1)
        assert [run.delivery_count for _, run in consumer.runs] == [1, 2, 1]


async def test_state_changed_elsewhere_is_loaded_again(
    harness: Harness,
) -> None:
    await harness.publish(10)
    async with stream(harness, credit=100) as consumer:
        await consumer.got_offsets(*range(10))
        await harness.initialize(state_epoch=2, start=7)
        refused = await consumer.acknowledge_all(ack(0, 4))
        assert refused == [(0, 4, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        await consumer.got_offsets(*range(10), 7, 8, 9)
        assert [(lost.first_offset, lost.last_offset) for lost in consumer.lost] == [(0, 9)]
        assert await consumer.acknowledge_all(ack(7, 9)) == [(7, 9, OK)]


async def test_handed_over_partition_loses_its_locks(harness: Harness) -> None:
    await harness.publish(2)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(0, 1)
        await harness.hand_over()
        await consumer.got(lambda: consumer.lost and consumer.problems)
        assert await consumer.acknowledge_all(ack(0, 1)) == [(0, 1, STATE)]


async def test_read_in_flight_restarts_after_unload(harness: Harness) -> None:
    await harness.publish(2)
    await harness.evict_hot_cache()
    harness.records.open.clear()
    async with stream(harness, credit=10) as consumer:
        share_partition = await harness.share_partition()
        await eventually(lambda: share_partition._reading)
        share_partition.retire()
        await settle()
        harness.records.open.set()
        await consumer.got_offsets(0, 1)


async def test_read_whose_records_others_acquired_is_empty(harness: Harness) -> None:
    await harness.publish(2)
    await harness.evict_hot_cache()
    harness.records.open.clear()
    async with stream(harness, credit=10) as first, stream(harness, member="m2", credit=10) as second:
        share_partition = await harness.share_partition()
        await eventually(lambda: share_partition._reading)
        await settle()
        harness.records.open.set()
        await first.got(lambda: first.records or second.records)
        await settle()
        assert len(first.records) + len(second.records) == 2


# --- records at risk


async def test_records_that_failed_often_are_isolated(harness: Harness) -> None:
    await harness.configure("share.delivery.count.limit", "5")
    await harness.publish(4)
    async with stream(harness, credit=100) as consumer:
        for _ in range(3):
            await consumer.got(lambda: consumer.offsets[-4:] == [0, 1, 2, 3])
            await consumer.acknowledge_all(ack(0, 3, RELEASE))
            await settle()
        assert consumer.offsets[12:] == [0, 1]
        await harness.publish(1)
        await settle()
        assert consumer.offsets[12:] == [0, 1]
        await consumer.acknowledge_all(ack(0))
        await settle()
        assert consumer.offsets[12:] == [0, 1]
        await consumer.acknowledge_all(ack(1))
        await consumer.got(lambda: consumer.offsets[14:] == [2, 3])
        await consumer.acknowledge_all(ack(2, 3))
        await consumer.got(lambda: consumer.offsets[16:] == [4])


# --- the end


async def test_results_follow_after_the_client_half_closed(harness: Harness) -> None:
    await harness.publish(3)
    async with stream(harness, credit=10) as consumer:
        await consumer.got_offsets(0, 1, 2)
        harness.persister.open.clear()
        (ack_id,) = consumer.acknowledge(ack(0, 1))
        consumer.finish()
        await eventually(lambda: harness.persister.writes)
        await harness.publish(5)
        await settle()
        harness.persister.open.set()
        await eventually(consumer.task.done)
        assert consumer.outcome(ack_id) == [(0, 1, OK)]
        assert consumer.offsets == [0, 1, 2]
    assert await harness.start_offset() == 2


async def test_stream_end_releases_its_records(harness: Harness) -> None:
    await harness.publish(3)
    async with stream(harness, credit=10) as first:
        await first.got_offsets(0, 1, 2)
        await first.acknowledge_all(ack(1))
        await first.break_off()
        async with stream(harness, credit=10) as second:
            await second.got_offsets(0, 2)
            assert {run.delivery_count for _, run in second.runs} == {2}


async def test_end_of_an_old_stream_keeps_locks_of_the_new_one(harness: Harness) -> None:
    async with stream(harness, credit=1) as old:
        await harness.publish(1)
        await old.got_offsets(0)
        async with stream(harness, credit=10) as new:
            await harness.publish(1)
            await new.got_offsets(1)
            assert await new.acknowledge_all(ack(0)) == [(0, 0, STATE)]
            await old.break_off()
            await new.got_offsets(0, 1)
            assert await new.acknowledge_all(ack(1), ack(0)) == [(0, 0, OK), (1, 1, OK)]


@pytest.mark.parametrize("at", ["load", "retry", "read", "idle"])
async def test_stream_end_leaves_no_listeners_or_tasks(harness: Harness, at: str) -> None:
    await harness.publish(1)
    await harness.evict_hot_cache()
    if at == "load":
        harness.persister.open.clear()
    if at == "read":
        harness.records.away = True
    async with stream(harness, credit=10, group="new" if at == "retry" else GROUP) as consumer:
        if at == "load":
            await eventually(lambda: harness.persister.reads)
        elif at == "idle":
            await consumer.got_offsets(0)
        else:
            await consumer.got(lambda: consumer.problems)
    harness.persister.open.set()
    harness.records.away = False
    await settle()
    names = {str(task.get_coro()) for task in asyncio.all_tasks()}
    assert not {name for name in names if "Delivery" in name or "ShareGroup" in name}
    assert not [
        loaded for led in harness.leadership.partitions() for loaded in led.loaded() if loaded._lock_listeners
    ]


async def test_client_that_does_not_read_is_not_read(harness: Harness) -> None:
    await harness.publish(10)
    with patch.object(stream_messages, "UNSENT_ENTRIES", 4):
        async with stream(harness, credit=10) as consumer:
            await consumer.got_offsets(*range(10))
            consumer.reading.clear()
            for offset in range(9):
                consumer.acknowledge(ack(offset))
                await settle()
            waiting = consumer._requests.qsize()
            assert 0 < waiting < 9
            consumer.reading.set()
            await consumer.got(lambda: len(consumer.results) == 9)


async def test_broken_requests_end_the_stream(harness: Harness) -> None:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        yield pb.DeliverRequest(open=pb.DeliverRequest.Open(group_id=GROUP, member_id="m"))
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        async for _ in harness.stub.Deliver(requests()):
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
async def test_first_message_must_open_the_stream(
    harness: Harness, opening: dict[str, Any], field: str
) -> None:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        yield pb.DeliverRequest(open=pb.DeliverRequest.Open(**opening))

    with pytest.raises(KafkaError) as refused:
        async for _ in harness.stub.Deliver(requests()):
            pass
    assert refused.value.code is REQUEST
    assert [violation.field for violation in refused.value.violations] == [field]


async def test_stream_without_a_message_is_rejected(harness: Harness) -> None:
    async def requests() -> AsyncIterator[pb.DeliverRequest]:
        return
        yield

    with pytest.raises(KafkaError):
        async for _ in harness.stub.Deliver(requests()):
            pass


# --- durable locks


async def test_a_renewed_long_lock_outlives_its_stream(harness: Harness) -> None:
    await harness.publish(3)
    async with stream(harness, credit=2, lock_ms=120_000, durable_locks=1) as consumer:
        await consumer.got(lambda: consumer.offsets[:2] == [0, 1])
        token = consumer.token(0)
        assert await consumer.acknowledge_all(ack(0, kind=RENEW, lock_token=token)) == [(0, 0, OK)]
    async with stream(harness, member="m2", credit=2) as other:
        await other.got(lambda: 1 in other.offsets)
        async with stream(harness, durable_locks=1) as again:
            assert await again.acknowledge_all(ack(0, lock_token=token)) == [(0, 0, OK)]
        assert 0 not in other.offsets


async def test_a_member_that_leaves_returns_its_renewed_locks(harness: Harness) -> None:
    await harness.publish(1)
    async with stream(harness, credit=1, lock_ms=120_000, durable_locks=1) as consumer:
        await consumer.got_offsets(0)
        await consumer.acknowledge_all(ack(0, kind=RENEW))
        consumer.send(pb.DeliverRequest(rest_unseen=True))
        consumer.finish()
        await consumer.task
    async with stream(harness, member="m2", credit=1) as other:
        await other.got_offsets(0)
        assert other.runs[0][1].delivery_count == 1


async def test_with_durable_locks_another_partition_has_another_leader(
    harness: Harness,
) -> None:
    async with stream(harness, partitions=(), durable_locks=1) as consumer:
        assert await consumer.acknowledge_all(ack(0)) == [(0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
