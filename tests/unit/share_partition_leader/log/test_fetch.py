"""Fetch returns stored batches unchanged, up to the high watermark or the last stable offset."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.catalog.records import PartitionsRecord
from sharebroker_server.leases import names
from sharebroker_server.leases.port import Lease, LeasesUnavailable
from sharebroker_server.record_log.core.producers import Verified
from sharebroker_server.share_partition_leader.log import fetch as log_fetch
from tests.testkit.waiting import Turns, eventually
from tests.unit.record_log.batches import batch, stored
from tests.unit.share_partition_leader.harness import TOPIC, Harness, code

SIZE = len(stored(0).data)


async def fetch(
    harness: Harness, *offsets: int, most: int = 10**6, **fields: Any
) -> list[pb.FetchResponse.Partition]:
    """From partition 0, 1, … at these offsets."""
    request = pb.FetchRequest(**{"max_bytes": 10**6, "min_bytes": 1, **fields})
    for partition, offset in enumerate(offsets):
        request.partitions.add(
            topic_id=TOPIC, partition=partition, fetch_offset=offset, partition_max_bytes=most
        )
    return list((await harness.stub.Fetch(request)).partitions)


async def begin(harness: Harness, producer: int) -> None:
    """One record of a producer's transaction."""
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    known = log.transactions.producers.get(producer)
    sequence = known.batches[-1].last_sequence + 1 if known else 0
    data = batch(1, producer=(producer, 0, sequence), transactional=True)
    await log.append(data, Verified(log.log_end_offset, renews_epoch=False))


async def end(harness: Harness, producer: int, *, commit: bool) -> None:
    request = pb.WriteTxnMarkersRequest()
    request.markers.add(topic_id=TOPIC, producer_id=producer, transaction_result=commit)
    await harness.stub.WriteTxnMarkers(request)


async def test_batches_are_returned_as_stored(harness: Harness) -> None:
    for _ in range(3):
        await harness.publish(3)
    (response,) = await fetch(harness, 4)
    log = (await harness.leadership.led(TOPIC, 0)).own_log
    assert response.records == b"".join(b.data for b in await log.read(4, 10**6))
    assert (response.high_watermark, response.last_stable_offset, response.log_start_offset) == (9, 9, 0)
    assert (response.leader_epoch, len(response.records)) == (log.epoch, 2 * SIZE)


async def test_uncached_records_are_read_from_the_store(harness: Harness) -> None:
    await harness.publish(3)
    await harness.evict_hot_cache()
    assert len((await fetch(harness, 0))[0].records) == SIZE


async def test_limits_do_not_apply_to_the_first_batch(harness: Harness) -> None:
    await harness.append_to_catalog(PartitionsRecord(TOPIC, 2))
    for partition in (0, 1):
        for _ in range(3):
            await harness.publish(3, partition)
    sizes = [len(response.records) // SIZE for response in await fetch(harness, 0, 0, max_bytes=4 * SIZE)]
    assert sizes == [3, 1]
    assert [len(a.records) // SIZE for a in await fetch(harness, 0, 0, most=2 * SIZE)] == [2, 2]
    assert [len(a.records) // SIZE for a in await fetch(harness, 0, 0, max_bytes=1)] == [1, 0]


async def test_each_partition_has_its_own_result_and_an_error_ends_the_wait(harness: Harness) -> None:
    await harness.append_to_catalog(PartitionsRecord(TOPIC, 2))
    await harness.publish(3)
    fine, empty, missing = await fetch(harness, 3, 0, 0, max_wait_ms=10**6)
    assert (code(fine), fine.records, fine.high_watermark) == (ErrorCode.NONE, b"", 3)
    assert (code(empty), empty.high_watermark) == (ErrorCode.NONE, 0)
    assert code(missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (beyond,) = await fetch(harness, 4, max_wait_ms=10**6)
    assert code(beyond) is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_fetch_waits_for_min_bytes(harness: Harness) -> None:
    await harness.append_to_catalog(PartitionsRecord(TOPIC, 2))
    await harness.publish(3)
    waiting = asyncio.create_task(fetch(harness, 0, 0, max_wait_ms=10**6, min_bytes=3 * SIZE))
    led = await harness.leadership.led(TOPIC, 1)
    await eventually(lambda: led.readers)
    await harness.publish(3, 1)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await harness.publish(3, 1)
    first, second = await waiting
    assert (len(first.records), len(second.records)) == (SIZE, 2 * SIZE)
    assert not led.readers


async def test_a_fetch_returns_fewer_bytes_at_its_deadline(harness: Harness) -> None:
    await harness.publish(3)
    (response,) = await fetch(harness, 0, max_wait_ms=20, min_bytes=10**6)
    assert len(response.records) == SIZE


async def test_a_relinquished_partition_wakes_its_long_polls(harness: Harness) -> None:
    await harness.publish(3)
    waiting = asyncio.create_task(fetch(harness, 3, max_wait_ms=10**6))
    led = await harness.leadership.led(TOPIC, 0)
    await eventually(lambda: led.readers)
    await harness.hand_over()
    (response,) = await waiting
    assert code(response) is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_read_committed_ends_at_the_last_stable_offset(harness: Harness) -> None:
    await harness.publish(1)
    await begin(harness, 7)
    await harness.publish(1)
    (open_,) = await fetch(harness, 0, isolation_level=1)
    (all_,) = await fetch(harness, 0)
    assert (open_.last_stable_offset, open_.high_watermark) == (1, 3)
    assert len(all_.records) > 2 * len(open_.records)
    assert not all_.aborted_transactions
    waiting = asyncio.create_task(fetch(harness, 1, isolation_level=1, max_wait_ms=10**6))
    led = await harness.leadership.led(TOPIC, 0)
    await eventually(lambda: led.readers)
    await end(harness, 7, commit=False)
    (response,) = await waiting
    assert [(t.producer_id, t.first_offset) for t in response.aborted_transactions] == [(7, 1)]
    assert (response.last_stable_offset, response.high_watermark) == (4, 4)
    (behind,) = await fetch(harness, 4, isolation_level=1)
    assert not behind.aborted_transactions


async def test_an_unclaimed_partition_is_claimed_once_per_fetch(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.append_to_catalog(PartitionsRecord(TOPIC, 3))
    claimed: list[str] = []

    async def silent(resource: str, *_: object, **__: object) -> Lease:
        claimed.append(resource)
        raise LeasesUnavailable("silent")

    monkeypatch.setattr(harness.leases, "claim", silent)
    responses = await fetch(harness, 0, 0, 0, max_wait_ms=10**6)
    assert {code(response) for response in responses} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert sorted(claimed) == sorted(names.partition(TOPIC, number) for number in range(3))
    monkeypatch.undo()
    assert {code(response) for response in await fetch(harness, 0, 0, 0)} == {ErrorCode.NONE}


async def turns_of(harness: Harness) -> int:
    """Returns how many turns other tasks had while seven partitions were fetched."""
    with Turns() as turns:
        assert [code(part) for part in await fetch(harness, *[0] * 7)] == [ErrorCode.NONE] * 7
    return turns.passed


async def test_many_partitions_are_read_in_portions(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.append_to_catalog(PartitionsRecord(TOPIC, 7))
    await turns_of(harness)  # claims the partitions
    before = await turns_of(harness)
    monkeypatch.setattr(log_fetch, "PORTION", 2)
    assert await turns_of(harness) == before + 3
