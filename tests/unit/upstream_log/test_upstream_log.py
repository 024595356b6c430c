"""Reads of a log that another cluster owns: errors, bounds of memory, leader changes and truncation."""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.kafka_client.core.topic_retention import TopicRetention
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.upstream_log import sessions, upstream_cluster, upstream_log
from sharebroker_server.upstream_log.broker_session import FIRST_PAUSE, LONGEST_PAUSE
from sharebroker_server.upstream_log.core.epochs import NAME as NOTES
from sharebroker_server.upstream_log.core.epochs import EpochHistory
from sharebroker_server.upstream_log.fetching import FetchSettings
from sharebroker_server.upstream_log.upstream_cluster import Limits
from sharebroker_server.upstream_log.upstream_log import UpstreamLog
from tests.testkit.memory.stream_log import Fault
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch
from tests.unit.record_log.harness import code_of, error_of, offsets
from tests.unit.upstream_log.harness import ALL, NAME, TOPIC, Harness, running

SIZE = len(batch(2))


async def shown(log: UpstreamLog, end: int) -> None:
    await eventually(lambda: log.records_end_offset == end)


async def notes(harness: Harness) -> EpochHistory:
    return EpochHistory.load(await harness.store.snapshots(NAME))


async def test_readers_of_one_offset_share_a_fetch() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        reads = await asyncio.gather(*(log.read(0, ALL) for _ in range(3)))
        assert [offsets(read) for read in reads] == [[(0, 1)]] * 3
        assert sum(not fetch.max_wait_ms for fetch in harness.cluster.fetches) == 1


async def test_a_cancelled_reader_leaves_the_fetch_to_others() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        first, second = (asyncio.create_task(log.read(0, ALL)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert offsets(await second) == [(0, 1)]


async def test_the_session_reads_ahead_up_to_the_bound() -> None:
    limits = Limits(cached=10 * SIZE, tail=3 * SIZE)
    async with running(FetchSettings(partition_bytes=SIZE), limits) as harness:
        log = await harness.open()
        for _ in range(6):
            harness.cluster.append(batch(2))
        await eventually(lambda: log.is_behind)
        assert log.read_hot(4, 1) is not None
        assert log.read_hot(6, 1) is None  # beyond the bound
        for offset in (0, 2):
            assert offsets(log.read_hot(offset, 1)) == [(offset, offset + 1)]
        await eventually(lambda: log.read_hot(8, 1) is not None)


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
async def test_members_receive_errors_they_know(error: ErrorCode, seen: ErrorCode) -> None:
    async with running(limits=Limits(tail=0)) as harness:  # no session takes the error
        harness.cluster.append(batch(2))
        log = await harness.open()
        harness.cluster.errors.append(error)
        rejected = await error_of(log.read(0, ALL))
        assert rejected.code is seen
        assert harness.logs.counters.errors == 1
        assert offsets(await log.read(0, ALL)) == [(0, 1)]


async def test_an_error_of_the_session_delays_nothing_for_long() -> None:
    async with running() as harness:
        log = await harness.open()
        harness.cluster.errors.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        harness.cluster.append(batch(2))
        await shown(log, 2)


async def test_a_log_of_another_owner_is_not_read() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        harness.lease.held = False
        assert await code_of(log.read(0, ALL)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_closed_log_ends_its_reads() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        reading = asyncio.create_task(log.read(0, ALL))
        await asyncio.sleep(0)
        await log.close()
        assert await code_of(reading) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_deleted_records_are_noticed_without_a_reader() -> None:
    async with running() as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        log = await harness.open()
        harness.cluster.delete_before(4)
        await eventually(lambda: log.log_start_offset == 4)
        assert await code_of(log.read(2, ALL)) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert offsets(await log.read(4, ALL)) == [(4, 5)]


async def test_a_read_of_a_deleted_offset_finds_the_new_start() -> None:
    async with running(limits=Limits(tail=0)) as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        log = await harness.open()
        harness.cluster.delete_before(4)
        assert await code_of(log.read(0, ALL)) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert log.log_start_offset == 4


async def test_compacted_records_leave_a_gap() -> None:
    async with running() as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        harness.cluster.compact(2)
        log = await harness.open()
        assert offsets(await log.read(2, ALL)) == [(4, 5)]
        assert offsets(await log.read(0, ALL)) == [(0, 1), (4, 5)]


async def test_reads_follow_the_leader() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        await shown(log, 2)
        harness.cluster.elect(1)
        harness.cluster.append(batch(2))
        await shown(log, 4)
        assert offsets(await log.read(0, ALL)) == [(0, 1), (2, 3)]
        assert (harness.truncated, harness.lease.reclaims) == (0, 0)
        assert [each.epoch for each in (await notes(harness)).epochs] == [0, 1]


@pytest.mark.parametrize("next_records", [0, 1, 4])
async def test_records_that_a_new_leader_lacks_are_truncated(next_records: int) -> None:
    async with running() as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        log = await harness.open()
        assert offsets(await log.read(0, ALL)) == [(0, 1), (2, 3), (4, 5)]
        harness.cluster.elect(1, keeps=2)
        for _ in range(next_records):
            harness.cluster.append(batch(1))
        await eventually(lambda: harness.truncated)
        await shown(log, 2 + next_records)
        assert log.epoch == harness.lease.epoch == 2
        assert await log.void_from(1, 2) == 2
        assert await log.void_from(2, 2) is None
        assert offsets(await log.read(0, ALL))[:1] == [(0, 1)]
        if next_records:
            assert offsets(await log.read(2, ALL))[0] == (2, 2)
        assert harness.logs.counters.truncations == 1


async def test_state_loaded_while_a_truncation_is_stored_is_void() -> None:
    async with running() as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        log = await harness.open()
        await log.read(0, ALL)
        harness.store.hold()
        harness.cluster.elect(1, keeps=2)
        await eventually(lambda: harness.lease.reclaims)
        loaded_under = log.epoch
        assert await code_of(log.read(0, ALL)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        harness.store.release()
        await eventually(lambda: harness.truncated)
        assert await log.void_from(loaded_under, 2) == 2
        assert await log.void_from(log.epoch, 2) is None


async def test_a_truncation_that_is_not_stored_is_stored_later() -> None:
    async with running() as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        log = await harness.open()
        await log.read(0, ALL)
        harness.store.fail_next_append(Fault.NOT_WRITTEN)
        harness.cluster.elect(1, keeps=2)
        await eventually(lambda: harness.truncated)
        assert log.epoch == harness.lease.epoch == 3
        assert await log.void_from(2, 2) == 2


async def test_a_topic_created_again_without_id_is_another_log() -> None:
    async with running() as harness:
        for node in (1, 0):
            harness.cluster.append(batch(2))
            harness.cluster.elect(node)
        harness.cluster.append(batch(2))
        log = await harness.open()
        assert len(await log.read(0, ALL)) == 3
        with (
            patch.object(upstream_cluster, "DEPOSED_SECONDS", 0.2),
            patch.object(sessions, "LONGEST_PAUSE", 0.1),
        ):
            harness.cluster.recreate()
            harness.cluster.append(batch(1))
            await eventually(lambda: harness.truncated)
            await shown(log, 1)
        assert await log.void_from(1, 6) == 0
        assert offsets(await log.read(0, ALL)) == [(0, 0)]


async def test_a_deposed_leader_makes_no_state_void() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        harness.cluster.elect(1)
        harness.cluster.append(batch(2))
        log = await harness.open()
        await log.close()
        later = harness.cluster.replicas
        harness.cluster.recreate()
        harness.client.doubt_leaders(TOPIC)  # as a process that has just started
        assert await code_of(harness.open()) is ErrorCode.KAFKA_STORAGE_ERROR
        harness.cluster.replicas = later
        log = await harness.open()
        assert log.records_end_offset == 4
        assert (await notes(harness)).truncations == ()


async def test_metadata_of_a_deposed_leader_is_refreshed_at_the_opening() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        harness.cluster.elect(1)
        harness.cluster.append(batch(2))
        await (await harness.open()).close()
        later, metadata = harness.cluster.replicas, harness.cluster._metadata
        harness.cluster.recreate()
        harness.client.doubt_leaders(TOPIC)
        await harness.client.refresh([TOPIC])

        def newer(node: int) -> Message:
            harness.cluster.replicas = later
            return metadata(node)

        harness.cluster._metadata = newer  # type: ignore[method-assign]
        assert (await harness.open()).records_end_offset == 4
        assert (await notes(harness)).truncations == ()


@pytest.mark.parametrize("pauses", [1, 2])
async def test_repeated_out_of_range_errors_pause_a_partition_longer(pauses: int) -> None:
    async with running() as harness:
        log = await harness.open()
        paused: list[float] = []
        report = log.failed

        def failed(reason: KafkaError, seconds: float) -> None:
            paused.append(seconds)
            report(reason, 0)

        log.failed = failed  # type: ignore[method-assign,assignment]
        harness.cluster.errors += [ErrorCode.OFFSET_OUT_OF_RANGE] * pauses
        harness.cluster.append(batch(2))
        await shown(log, 2)
        assert paused == [FIRST_PAUSE, LONGEST_PAUSE][:pauses]


async def open_behind(harness: Harness) -> UpstreamLog:
    """Opens the log; the session reads a batch ahead and leaves."""
    log = await harness.open()
    harness.cluster.append(batch(2, producer=(7, 0, 0), transactional=True))
    await eventually(lambda: log.is_behind)
    return log


async def test_readers_that_wait_for_a_transaction_see_its_end_when_behind() -> None:
    with patch.object(upstream_log, "BEHIND_SECONDS", 0.05):
        async with running(limits=Limits(tail=SIZE)) as harness:
            log = await open_behind(harness)
            assert log.read_hot(0, ALL, committed=True) == []
            harness.cluster.end_transaction(commit=True)
            await eventually(lambda: log.last_stable_offset == 3)
            assert offsets(await log.read(0, ALL, committed=True)) == [(0, 1), (2, 2)]
            assert not log.is_behind
            harness.cluster.append(batch(1))
            await shown(log, 4)


async def test_readers_at_the_end_see_records_of_a_log_that_is_behind() -> None:
    with patch.object(upstream_log, "BEHIND_SECONDS", 0.05):
        async with running(limits=Limits(tail=SIZE)) as harness:
            log = await open_behind(harness)
            for _ in range(2):
                harness.cluster.append(batch(2))
            await shown(log, 6)
            assert offsets(await log.read(4, ALL)) == [(4, 5)]
            before = len(harness.cluster.fetches)
            harness.cluster.append(batch(1))
            await shown(log, 7)
            later = harness.cluster.fetches[before:]
            assert {each.topics[0].partitions[0].fetch_offset for each in later} <= {6, 7}


async def test_the_next_leader_finds_records_that_were_lost() -> None:
    async with running() as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        log = await harness.open()
        await log.read(0, ALL)
        await log.close()
        harness.cluster.elect(1, keeps=2)
        for _ in range(5):
            harness.cluster.append(batch(2))
        harness.lease.epoch = 7
        log = await harness.open()
        assert log.records_end_offset == 12
        assert await log.void_from(6, 6) == 2
        assert await log.void_from(7, 12) is None
        await log.close()
        harness.lease.epoch = 8
        log = await harness.open()
        assert await log.void_from(6, 6) == 2  # state that no leader loaded in between
        assert await log.void_from(7, 12) is None


async def test_state_behind_the_end_of_the_log_is_void() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        assert await log.void_from(1, 2) is None
        assert await log.void_from(1, 3) == 2


async def test_a_log_that_shrank_without_election_is_read_from_its_end() -> None:
    async with running() as harness:
        for _ in range(3):
            harness.cluster.append(batch(2))
        log = await harness.open()
        await log.read(0, ALL)
        del harness.cluster.log.batches[1:]
        harness.cluster._notify()
        await eventually(lambda: harness.truncated)
        harness.cluster.append(batch(1))
        await shown(log, 3)
        assert offsets(await log.read(2, ALL)) == [(2, 2)]


async def test_records_are_not_shown_before_their_epoch_is_stored() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        await shown(log, 2)
        harness.store.hold()
        fetches = harness.cluster.fetches
        harness.cluster.elect(1)
        harness.cluster.append(batch(2))
        await eventually(
            lambda: any(fetch.topics[0].partitions[0].current_leader_epoch == 1 for fetch in fetches)
        )
        assert log.records_end_offset == 2
        harness.store.release()
        await shown(log, 4)


@pytest.mark.parametrize("fault", [Fault.NOT_WRITTEN, Fault.DONE_UNKNOWN, Fault.LOST_UNKNOWN])
async def test_a_store_that_fails_delays_records(fault: Fault) -> None:
    async with running() as harness:
        log = await harness.open()
        harness.cluster.elect(1)
        harness.store.fail_next_append(fault)
        harness.cluster.append(batch(2))
        await shown(log, 2)
        assert (await notes(harness)).last_epoch == 1


async def test_notes_that_the_store_lost_are_stored_again() -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        before = await notes(harness)
        await harness.store.trim(NAME, 1, 0, [NOTES])
        await log.recheck()
        assert await notes(harness) == before != EpochHistory()


@pytest.mark.parametrize("stored", [EpochHistory().packed(), b"\x09\x00\x00\x00\x00"])
async def test_a_recheck_leaves_the_notes_of_the_next_leader(stored: bytes) -> None:
    async with running() as harness:
        harness.cluster.append(batch(2))
        log = await harness.open()
        harness.lease.epoch = 2
        await harness.store.append(NAME, 2, (), snapshots={NOTES: stored})
        await log.recheck()
        assert (await harness.store.snapshots(NAME))[NOTES] == stored


async def test_retention_is_that_of_the_topic_in_the_cluster() -> None:
    async with running() as harness:
        log = await harness.open()
        assert log.retention_ms == -1
        harness.client.retention = {TOPIC: TopicRetention(60_000, -1)}
        assert log.retention_ms == 60_000


async def test_an_unreadable_store_prevents_the_opening() -> None:
    async with running() as harness:
        harness.store.away = True
        assert await code_of(harness.open()) is ErrorCode.KAFKA_STORAGE_ERROR
        harness.store.away = False
        await harness.store.append(NAME, 1, (), snapshots={NOTES: b"\x09\x00\x00\x00\x00"})
        assert await code_of(harness.open()) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(("timestamp", "offset"), [(0, 0), (1001, 1), (2000, 2), (3000, None)])
async def test_times_are_looked_up_in_the_cluster(timestamp: int, offset: int | None) -> None:
    async with running() as harness:
        harness.cluster.append(batch(2, time=1000))
        harness.cluster.append(batch(2, time=2000))
        log = await harness.open()
        found = await log.offset_for_timestamp(timestamp)
        assert (None if found is None else found.offset) == offset
        newest = await log.offset_of_newest()
        assert newest is not None
        assert newest.offset == 3
        assert await log.time_of(3) == 2001
        assert await log.time_of(9) == -1
