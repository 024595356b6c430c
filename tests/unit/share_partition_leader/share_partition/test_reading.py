"""Transactions in share groups: hidden records are not delivered and do not hold back the start offset."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.model import AcquiredRange
from sharebroker_server.catalog.records import ConfigRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.leases import names
from sharebroker_server.record_log.core.producers import Marker, Verified
from sharebroker_server.record_log.core.schedules import Schedules
from sharebroker_server.share_partition_leader.core.acquire import Acquisition
from sharebroker_server.share_partition_leader.core.events import Acquire, AcquireRequest, Effects, Event
from sharebroker_server.share_partition_leader.core.share_partition import SharePartition
from sharebroker_server.share_partition_leader.share_partition import share_group_partition
from sharebroker_server.share_partition_leader.share_partition.reading import (
    Fetched,
    bytes_of,
    split_expired,
    with_share_state,
)
from tests.testkit.waiting import eventually
from tests.unit.record_log.batches import batch, identified, stored
from tests.unit.share_partition_leader.harness import ACCEPT, NAME, RELEASE, TOPIC, Harness, code
from tests.unit.share_partition_leader.virtual_time import now

COMMITTED = "read_committed"
RECORD_LIMIT = 1
GAP = 0


async def isolate(harness: Harness, level: str = COMMITTED) -> None:
    await harness.configure("share.isolation.level", level)


async def write(harness: Harness, producer: int = 7, count: int = 1) -> None:
    """A batch in a producer's transaction."""
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    known = log.transactions.producers.get(producer)
    sequence = known.batches[-1].last_sequence + 1 if known else 0
    data = batch(count, producer=(producer, 0, sequence), transactional=True)
    await log.append(data, Verified(log.log_end_offset, renews_epoch=False))


async def end(harness: Harness, producer: int = 7, *, commit: bool) -> None:
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    await log.end_transaction(Marker(producer, 0, 1, commit))


async def transact(harness: Harness, *outcomes: bool, count: int = 1) -> None:
    """Transactions one after the other, each with one batch: `count` offsets and one for the marker."""
    for commit in outcomes:
        await write(harness, count=count)
        await end(harness, commit=commit)


async def acquired(harness: Harness, most: int = 500, **fields: Any) -> list[tuple[int, int]]:
    (response,) = await harness.acquire(most, **fields)
    assert code(response) is ErrorCode.NONE
    return [(run.first_offset, run.last_offset) for run in response.acquired]


async def test_markers_are_not_delivered(harness: Harness) -> None:
    await transact(harness, True, False)
    assert await acquired(harness) == [(0, 0), (2, 2)]


async def test_read_committed_groups_never_acquire_aborted_records(harness: Harness) -> None:
    await isolate(harness)
    await transact(harness, True, False, True, count=2)
    (response,) = await harness.acquire()
    assert [(run.first_offset, run.last_offset) for run in response.acquired] == [(0, 1), (6, 7)]
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    needed = [b.data for b in await log.read(0, 10**6) if b.base_offset in (0, 6)]
    assert response.record_batches == b"".join(needed)


async def test_many_hidden_batches_are_archived_together(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await isolate(harness)
    await transact(harness, *[False] * 30)
    await harness.publish(1)
    acquisitions = []
    handle = SharePartition.handle

    def record(self: SharePartition, event: Event, now: float) -> Effects:
        if isinstance(event, Acquire):
            acquisitions.append(event)
        return handle(self, event, now)

    monkeypatch.setattr(SharePartition, "handle", record)
    assert await acquired(harness, batch_size=1) == [(60, 60)]
    assert len(acquisitions) == 2


async def test_many_reads_of_hidden_records_are_made_in_several_steps(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_group_partition, "READS_AT_ONCE", 2)
    monkeypatch.setattr(share_group_partition, "DELIVERY_BYTES", 1)
    await isolate(harness)
    await transact(harness, *[False] * 5)
    await harness.publish(1)
    assert await acquired(harness) == []
    assert (await harness.share_partition()).core.start_offset == 2
    assert await acquired(harness, max_wait_ms=1000) == [(10, 10)]


async def test_concurrent_transactions_are_distinguished(harness: Harness) -> None:
    await isolate(harness)
    for producer in (7, 8, 7):
        await write(harness, producer)
    await end(harness, 8, commit=True)
    await end(harness, 7, commit=False)
    await harness.publish(1)
    assert await acquired(harness) == [(1, 1), (5, 5)]


async def publish(harness: Harness, *ids: str | None) -> int:
    return await harness.publish_bytes(identified(ids, time=-1))


async def deduplicate(harness: Harness) -> None:
    await harness.append_to_catalog(
        ConfigRecord(ConfigResource(ResourceType.TOPIC, NAME), "message.dedup.window.ms", "60000")
    )


async def test_duplicates_are_not_delivered(harness: Harness) -> None:
    await deduplicate(harness)
    assert await publish(harness, "a", "b") == 0
    assert await publish(harness, "a", "b") == 0
    assert await publish(harness, "a", "x", "b", None) == 2
    assert await publish(harness, "b", "a") == 6
    assert await acquired(harness) == [(0, 1), (3, 3), (5, 5)]
    await harness.acknowledge((0, 1, ACCEPT))
    assert code(await harness.acknowledge((3, 3, ACCEPT))) is ErrorCode.NONE
    assert code(await harness.acknowledge((5, 5, ACCEPT))) is ErrorCode.NONE
    assert await acquired(harness) == []
    assert await harness.start_offset() == 8


async def test_duplicates_do_not_use_up_the_limit_of_a_request(harness: Harness) -> None:
    await deduplicate(harness)
    await publish(harness, "a", "b")
    await publish(harness, "a", "b", "x", "a", "y")
    found = []
    for _ in range(4):
        found += await acquired(harness, 1, acquire_mode=RECORD_LIMIT)
    assert found == [(0, 0), (1, 1), (4, 4), (6, 6)]


async def test_released_records_behind_duplicates_are_delivered_again(harness: Harness) -> None:
    await deduplicate(harness)
    await publish(harness, "a")
    await publish(harness, "a", "x", "y")
    assert await acquired(harness) == [(0, 0), (2, 3)]
    await harness.acknowledge((0, 0, ACCEPT))
    await harness.acknowledge((2, 2, ACCEPT))
    await harness.acknowledge((3, 3, RELEASE))
    assert await acquired(harness) == [(3, 3)]


HOUR = 3_600_000


async def expire(harness: Harness, max_age_ms: int = HOUR) -> None:
    await harness.configure("share.record.max.age.ms", str(max_age_ms))


async def publish_aged(harness: Harness, *ages_ms: int, count: int = 1) -> None:
    """A batch of `count` records for each age; the newest record has that age."""
    for age in ages_ms:
        await harness.publish_bytes(batch(count, time=round(now() * 1000) - age - count + 1))


async def test_records_older_than_the_limit_are_archived(harness: Harness) -> None:
    await expire(harness)
    await publish_aged(harness, HOUR + 1000, 1000, HOUR + 1000, HOUR + 1000, 1000, count=2)
    assert await acquired(harness) == [(2, 3), (8, 9)]
    counts = (await harness.share_partition()).core.counts
    assert (counts.expired, counts.aborted) == (6, 0)
    for first, last in ((2, 3), (8, 9)):
        assert code(await harness.acknowledge((first, last, ACCEPT))) is ErrorCode.NONE
    assert await harness.start_offset() == 10


async def test_records_do_not_expire_by_default(harness: Harness) -> None:
    await publish_aged(harness, 1000 * HOUR)
    assert await acquired(harness) == [(0, 0)]


async def test_records_of_any_age_stay_in_the_log_and_in_other_groups(harness: Harness) -> None:
    await expire(harness)
    await publish_aged(harness, 2 * HOUR)
    await harness.initialize(group="other")
    assert await acquired(harness) == []
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    assert log.log_start_offset == 0
    other = await harness.share_partition(group="other")
    assert isinstance(other.acquire(AcquireRequest("m", 1, 1)), Fetched)


async def test_a_released_record_expires_before_its_next_delivery(harness: Harness) -> None:
    await expire(harness)
    await publish_aged(harness, HOUR - 5000, 0)
    assert await acquired(harness) == [(0, 1)]
    await asyncio.sleep(6)
    assert code(await harness.acknowledge((0, 1, RELEASE))) is ErrorCode.NONE
    assert await acquired(harness) == [(1, 1)]
    assert await harness.start_offset() == 1
    assert code(await harness.acknowledge((1, 1, ACCEPT))) is ErrorCode.NONE
    assert await harness.start_offset() == 2


async def test_a_held_record_does_not_expire(harness: Harness) -> None:
    await expire(harness)
    await publish_aged(harness, HOUR - 5000)
    assert await acquired(harness) == [(0, 0)]
    await asyncio.sleep(10)
    assert await acquired(harness, member="m2") == []
    assert code(await harness.acknowledge((0, 0, ACCEPT))) is ErrorCode.NONE
    assert (await harness.share_partition()).core.counts.expired == 0


async def test_a_changed_age_applies_to_records_not_yet_acquired(harness: Harness) -> None:
    await publish_aged(harness, 3 * HOUR, 2 * HOUR, HOUR)
    assert await acquired(harness, 1) == [(0, 0)]
    await expire(harness, 2 * HOUR - 1)
    assert await acquired(harness) == [(2, 2)]
    assert code(await harness.acknowledge((0, 0, ACCEPT))) is ErrorCode.NONE


async def test_expired_records_do_not_use_up_the_limit_of_a_request(harness: Harness) -> None:
    await expire(harness)
    await publish_aged(harness, *[2 * HOUR] * 30, 0, *[2 * HOUR] * 30, 0)
    for offset in (30, 61):
        assert await acquired(harness, 1, acquire_mode=RECORD_LIMIT) == [(offset, offset)]


async def test_neighbours_expire_together_beyond_the_limit_of_locks(harness: Harness) -> None:
    await expire(harness)
    await harness.configure("share.partition.max.record.locks", "100")
    await publish_aged(harness, *[2 * HOUR] * 300, 0)
    with patch.object(Acquisition, "run", autospec=True, side_effect=Acquisition.run) as acquire:
        assert await acquired(harness) == [(300, 300)]
    assert acquire.call_count == 2
    assert (await harness.share_partition()).core.in_flight.sizes()[:2] == (1, 1)


async def test_one_request_skips_expired_records_of_the_store(harness: Harness) -> None:
    await expire(harness)
    await publish_aged(harness, *[2 * HOUR] * 5, count=6000)
    await harness.evict_hot_cache()
    await publish_aged(harness, 0)
    share_partition = await harness.share_partition()
    fetched = await share_partition.acquire_uncached(AcquireRequest("m1", 500, 500))
    assert isinstance(fetched, Fetched)
    assert fetched.acquired[0][:2] == (30_000, 30_000)


async def test_expired_and_aborted_records_and_duplicates_are_skipped(harness: Harness) -> None:
    await expire(harness)
    await isolate(harness)
    await deduplicate(harness)
    await publish_aged(harness, 2 * HOUR)
    await publish(harness, "a")
    await transact(harness, False)
    await publish_aged(harness, 2 * HOUR)
    await publish(harness, "a", "b")
    await harness.publish_bytes(batch(1, time=round(now() * 1000)))
    assert await acquired(harness) == [(1, 1), (6, 7)]


@pytest.mark.parametrize(
    ("times", "spans", "expired", "others"),
    [
        pytest.param([], [], [], [], id="nothing"),
        pytest.param([50], [(0, 9)], [], [0], id="at the limit"),
        pytest.param([49], [(0, 9)], [(0, 9)], [], id="below it"),
        pytest.param([0], [(0, 9)], [(0, 9)], [], id="at the epoch"),
        pytest.param([-1], [(0, 9)], [], [0], id="without a timestamp"),
        pytest.param([10**15], [(0, 9)], [], [0], id="in the future"),
        pytest.param([1, 2, 60], [(0, 19), (20, 29)], [(0, 19)], [2], id="neighbours"),
        pytest.param([60, 1, 2], [(0, 9), (10, 29)], [(10, 29)], [0], id="neighbours at the end"),
        pytest.param([1, 60, 2], [(0, 9), (10, 19), (20, 29)], [(0, 9), (20, 29)], [1], id="apart"),
        pytest.param([1, 2, 3], [(0, 29)], [(0, 29)], [], id="all"),
    ],
)
def test_batches_are_split_by_age(
    times: list[int], spans: list[tuple[int, int]], expired: list[tuple[int, int]], others: list[int]
) -> None:
    batches = [stored(index * 10, 10, time=time - 9) for index, time in enumerate(times)]
    batches = [each._replace(max_timestamp=time) for each, time in zip(batches, times, strict=True)]
    found = split_expired(batches, 50, Schedules().latest_in)
    assert found == (spans, expired, [batches[index] for index in others])


@pytest.mark.parametrize(("adjacent", "expected"), [(False, [(0, 4)]), (True, [(0, 1), (3, 4)])])
def test_expired_neighbours_join_across_a_gap_unless_it_has_share_state(
    adjacent: bool, expected: list[tuple[int, int]]
) -> None:
    batches = [stored(0, 2, time=5), stored(3, 2, time=5)]
    spans, expired, _ = split_expired(batches, 50, Schedules().latest_in, adjacent=adjacent)
    assert spans == expired == expected


async def test_a_gap_between_expired_records_is_finished_with_them(harness: Harness) -> None:
    await expire(harness)
    resource = names.partition(TOPIC, 0)
    old = [stored(0, 10, time=1), stored(15, 5, time=1), stored(30, 5, time=1)]
    await harness.records.append(resource, harness.leases.epoch_of(resource), old)
    await publish_aged(harness, 0)
    assert await acquired(harness) == [(35, 35)]
    core = (await harness.share_partition()).core
    assert (core.start_offset, core.in_flight.locked) == (35, 1)


@pytest.mark.parametrize(
    ("spans", "hidden", "expected"),
    [
        ([], [], ([], [])),
        ([(4, 5), (6, 9)], [(6, 9)], ([(4, 5), (6, 9)], [(6, 9)])),
        ([(4, 5), (7, 9)], [(7, 9)], ([(4, 5), (6, 6), (7, 9)], [(6, 6), (7, 9)])),
        ([(4, 4), (7, 7), (9, 9)], [], ([(4, 4), (5, 6), (7, 7), (8, 8), (9, 9)], [(5, 6), (8, 8)])),
    ],
)
def test_share_state_between_records_is_hidden(
    spans: list[tuple[int, int]],
    hidden: list[tuple[int, int]],
    expected: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    assert with_share_state(spans, hidden) == expected


async def test_hidden_records_are_archived(harness: Harness) -> None:
    """The start offset that is written moves past it: lag becomes 0."""
    await transact(harness, True)
    assert await acquired(harness) == [(0, 0)]
    assert code(await harness.acknowledge((0, 0, ACCEPT))) is ErrorCode.NONE
    assert (await harness.start_offset(), harness.persister.written) == (2, 1)
    await write(harness)
    assert await acquired(harness) == [(2, 2)]
    assert code(await harness.acknowledge((2, 2, ACCEPT))) is ErrorCode.NONE
    assert await harness.start_offset() == 3
    await end(harness, commit=True)
    assert await acquired(harness) == []
    await eventually(lambda: harness.persister.written == 3)
    assert await harness.start_offset() == 4


async def test_aborted_records_do_not_hold_back_the_start_offset(harness: Harness) -> None:
    await isolate(harness)
    await transact(harness, False, False, count=5)
    assert await acquired(harness) == []
    await eventually(lambda: harness.persister.written == 1)
    assert await harness.start_offset() == 12


async def test_the_start_offset_is_stored_after_the_last_acknowledgement(harness: Harness) -> None:
    await transact(harness, True)
    await acquired(harness, most=1)
    harness.persister.open.clear()
    acknowledging = asyncio.create_task(harness.acknowledge((0, 0, ACCEPT)))
    await eventually(lambda: harness.persister.writes)
    assert await acquired(harness) == []
    harness.persister.open.set()
    assert code(await acknowledging) is ErrorCode.NONE
    await eventually(lambda: harness.persister.written == 2)
    assert await harness.start_offset() == 2


async def test_marker_is_not_written_while_a_later_write_will_cover_it(harness: Harness) -> None:
    await transact(harness, True)
    await harness.publish(1)
    assert await acquired(harness) == [(0, 0), (2, 2)]
    await harness.acquire()
    assert not harness.persister.writes


async def test_records_of_an_open_transaction_are_not_delivered(harness: Harness) -> None:
    await isolate(harness)
    await harness.publish(1)
    await write(harness)
    await harness.publish(1)
    assert await acquired(harness) == [(0, 0)]
    waiting = asyncio.create_task(acquired(harness, max_wait_ms=10**6))
    share_partition = await harness.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    await end(harness, commit=True)
    assert await waiting == [(1, 2)]


async def test_abort_makes_later_records_available(harness: Harness) -> None:
    await isolate(harness)
    await write(harness, count=3)
    await harness.publish(1)
    waiting = asyncio.create_task(acquired(harness, max_wait_ms=10**6))
    share_partition = await harness.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    await end(harness, commit=False)
    assert await waiting == [(3, 3)]


async def test_large_aborted_batch_is_skipped_at_once(harness: Harness) -> None:
    await isolate(harness)
    await harness.publish(1)
    await transact(harness, False, count=400)
    await harness.publish(1)
    with patch.object(Acquisition, "run", autospec=True, side_effect=Acquisition.run) as acquire:
        for offset in (0, 402):
            assert await acquired(harness, 1, acquire_mode=RECORD_LIMIT) == [(offset, offset)]
    assert acquire.call_count <= 4


async def test_a_full_window_waits_before_hidden_records(harness: Harness) -> None:
    await isolate(harness)
    await harness.configure("share.partition.max.record.locks", "100")
    await harness.publish(100)
    await transact(harness, False)
    await acquired(harness)
    assert await acquired(harness, member="m2") == []
    assert code(await harness.acknowledge((0, 99, ACCEPT))) is ErrorCode.NONE
    assert await acquired(harness) == []
    await eventually(lambda: harness.persister.written == 2)
    assert await harness.start_offset() == 102


async def test_uncached_records_are_filtered_alike(harness: Harness) -> None:
    await isolate(harness)
    await transact(harness, False, True)
    await harness.evict_hot_cache()
    assert await acquired(harness) == [(2, 2)]


async def test_a_changed_isolation_level_applies_to_records_not_yet_acquired(harness: Harness) -> None:
    await transact(harness, False, False)
    assert await acquired(harness, 1) == [(0, 0)]
    assert code(await harness.acknowledge((0, 0, RELEASE))) is ErrorCode.NONE
    await isolate(harness)
    assert await acquired(harness) == []
    await transact(harness, False)
    await isolate(harness, "read_uncommitted")
    assert await acquired(harness) == [(4, 4)]


async def test_a_changed_isolation_level_wakes_waiting_members(harness: Harness) -> None:
    await isolate(harness)
    await write(harness)
    waiting = asyncio.create_task(acquired(harness, max_wait_ms=10**6))
    share_partition = await harness.share_partition()
    await eventually(lambda: share_partition._availability_listeners)
    await isolate(harness, "read_uncommitted")
    assert await waiting == [(0, 0)]


async def test_failed_write_is_not_retried_indefinitely(harness: Harness) -> None:
    await isolate(harness)
    await transact(harness, False)
    harness.persister.before.append(KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert await acquired(harness) == []
    await eventually(lambda: harness.persister.writes)
    await asyncio.sleep(0.01)
    assert len(harness.persister.writes) == 1
    await transact(harness, True)
    assert await acquired(harness) == [(2, 2)]


@pytest.mark.parametrize("level", ["read_uncommitted", COMMITTED])
async def test_clients_with_markers_acknowledge_them_as_gaps(harness: Harness, level: str) -> None:
    await isolate(harness, level)
    await transact(harness, True, False)
    expected = [(0, 1), (3, 3)] if level == COMMITTED else [(0, 3)]
    assert await acquired(harness, with_markers=True) == expected
    gaps = [(0, 0, ACCEPT), (1, 1, GAP), *([(2, 2, ACCEPT)] if level != COMMITTED else []), (3, 3, GAP)]
    assert code(await harness.acknowledge(*gaps)) is ErrorCode.NONE
    assert await harness.start_offset() == 4


@pytest.mark.parametrize(
    ("reset", "start"),
    [("earliest", 2), ("latest", 9), ("by_duration:PT1H", 6), ("by_duration:P30D", 3)],
)
async def test_unset_start_offset_follows_the_reset_policy(harness: Harness, reset: str, start: int) -> None:
    ms = round(now() * 1000)
    for age_ms in (90 * 86_400_000, 2 * 3_600_000, 60_000):
        await harness.publish_bytes(batch(3, time=ms - age_ms))
    await (await harness.own_log()).delete_records(2)
    await harness.configure("share.auto.offset.reset", reset, group="new")
    await harness.initialize(group="new", start=-1)
    assert (await harness.share_partition(group="new")).core.start_offset == start


async def has_stored(harness: Harness, start: int) -> None:
    async def stored() -> bool:
        return await harness.start_offset(group="new") == start

    await eventually(stored)


async def test_start_offset_by_duration_is_stored_before_the_first_delivery(harness: Harness) -> None:
    ms = round(now() * 1000)
    await harness.publish_bytes(batch(3, time=ms - 2 * 3_600_000))
    await harness.publish_bytes(batch(1, time=ms))
    await harness.configure("share.auto.offset.reset", "by_duration:PT1H", group="new")
    await harness.initialize(group="new", start=-1)
    loaded = await harness.share_partition(group="new")
    assert loaded.core.start_offset == 3
    await has_stored(harness, 3)
    loaded.retire()
    await harness.configure("share.auto.offset.reset", "latest", group="new")
    assert (await harness.share_partition(group="new")).core.start_offset == 3


@pytest.mark.parametrize("published", [0, 4])
async def test_latest_start_offset_is_stored_with_the_next_record(harness: Harness, published: int) -> None:
    if published:
        await harness.publish(published)
    await harness.configure("share.auto.offset.reset", "latest", group="new")
    await harness.initialize(group="new", start=-1)
    loaded = await harness.share_partition(group="new")
    assert not loaded.core.writing
    assert await harness.start_offset(group="new") == -1  # Kafka's tools show none either
    await harness.publish(2)
    await has_stored(harness, published)
    loaded.retire()
    assert (await harness.share_partition(group="new")).core.start_offset == published


async def test_latest_start_offset_is_stored_before_it_is_unloaded(harness: Harness) -> None:
    await harness.publish(4)
    await harness.configure("share.auto.offset.reset", "latest", group="new")
    await harness.initialize(group="new", start=-1)
    loaded = await harness.share_partition(group="new")
    loaded.drop_unused()
    assert not loaded.retired
    await has_stored(harness, 4)
    loaded.drop_unused()
    assert loaded.retired
    await harness.publish(2)
    assert (await harness.share_partition(group="new")).core.start_offset == 4


async def test_earliest_start_offset_is_not_stored_before_a_write(harness: Harness) -> None:
    await harness.publish(3)
    await harness.configure("share.auto.offset.reset", "earliest", group="new")
    await harness.initialize(group="new", start=-1)
    assert not (await harness.share_partition(group="new")).core.writing
    assert await harness.start_offset(group="new") == -1


@pytest.mark.parametrize(
    ("reset", "published", "logged"),
    [("latest", 3, True), ("latest", 0, False), ("earliest", 3, False), ("by_duration:P30D", 3, False)],
)
async def test_start_at_the_end_of_a_partition_with_records_is_logged(
    harness: Harness, reset: str, published: int, logged: bool
) -> None:
    if published:
        await harness.publish_bytes(batch(published, time=round(now() * 1000)))
    await harness.configure("share.auto.offset.reset", reset, group="new")
    await harness.initialize(group="new", start=-1)
    with capture_logs() as lines:
        await harness.share_partition(group="new")
    events = [
        line for line in lines if line["event"] == "group starts at the end of a partition with records"
    ]
    assert [(line["group"], line["offset"], line["records"]) for line in events] == [("new", 3, 3)] * logged


async def test_by_duration_without_a_record_is_offset_not_available(harness: Harness) -> None:
    await harness.publish_bytes(batch(3, time=1000))
    await harness.configure("share.auto.offset.reset", "by_duration:PT1H", group="new")
    await harness.initialize(group="new", start=-1)
    with pytest.raises(KafkaError, match=r"OFFSET_NOT_AVAILABLE: .*PT1H") as refused:
        await harness.share_partition(group="new")
    assert refused.value.retriable


async def test_stored_start_offset_overrides_the_reset_policy(harness: Harness) -> None:
    await harness.publish(5)
    await harness.initialize(group="new", start=3)
    assert (await harness.share_partition(group="new")).core.start_offset == 3


async def test_written_state_is_loaded_by_the_next_leader(harness: Harness) -> None:
    await harness.publish(10)
    await harness.acquire()
    await harness.acknowledge((2, 4, ACCEPT))
    (await harness.share_partition()).retire()
    (response,) = await harness.acquire()
    assert [(run.first_offset, run.last_offset, run.delivery_count) for run in response.acquired] == [
        (0, 1, 1),
        (5, 9, 1),
    ]


@pytest.mark.parametrize(
    ("stored", "reported"),
    [
        (ErrorCode.INVALID_REQUEST, ErrorCode.LEADER_NOT_AVAILABLE),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
async def test_read_errors_map_to_kafka_errors(
    harness: Harness, stored: ErrorCode, reported: ErrorCode
) -> None:
    harness.persister.on_read.append(
        KafkaError(stored, "the reason", metadata={"state_epoch": "3"}, retry_after=0.5)
    )
    with pytest.raises(KafkaError) as refused:
        await harness.share_partition()
    assert refused.value.code is reported
    assert refused.value.metadata == {"state_epoch": "3"}
    await harness.share_partition()


class Batch:
    """A stored batch of ten offsets; its data is its number."""

    def __init__(self, number: int) -> None:
        self.base_offset, self.last_offset = number * 10, number * 10 + 9
        self.data = b"%d" % number


def ranges(*spans: tuple[int, int]) -> list[AcquiredRange]:
    return [AcquiredRange(first, last, 1, 1, 0.0) for first, last in spans]


@pytest.mark.parametrize(
    ("acquired", "data"),
    [
        pytest.param([(0, 29)], b"012", id="all"),
        pytest.param([(12, 13)], b"1", id="inside one batch"),
        pytest.param([(9, 10)], b"01", id="across two batches"),
        pytest.param([(3, 4), (25, 26)], b"02", id="two ranges with a batch between"),
        pytest.param([(3, 4), (8, 8), (12, 29)], b"012", id="several ranges in one batch"),
        pytest.param([(5, 5), (11, 12)], b"01", id="nothing after the last range"),
    ],
)
def test_only_batches_with_acquired_records_are_sent(acquired: list[tuple[int, int]], data: bytes) -> None:
    batches = [Batch(number) for number in range(3)]
    assert bytes_of(batches, ranges(*acquired)) == data  # type: ignore[arg-type]


def test_a_single_batch_is_not_copied() -> None:
    batch = Batch(0)
    assert bytes_of([batch], ranges((0, 2))) is batch.data  # type: ignore[list-item]


def test_offsets_counts_all_ranges() -> None:
    assert Fetched(ranges((0, 4), (7, 7)), b"").offsets == 6
