"""`make spark-crashes`: a test for each moment at which a process may die or a batch lose records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from tests.spark.environment import START_SECONDS, needs_spark
from tests.spark.transfers import RECORDS, Transfer
from tests.support.client import TIMEOUT, connected
from tests.testkit.brokers import Serve

pytestmark = [needs_spark, pytest.mark.timeout(4 * START_SECONDS)]
LOCAL_CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    folder: Path = tmp_path_factory.mktemp("serve")
    options = ["--data", str(folder / "data"), "--set", "group.share.min.record.lock.duration.ms=1000"]
    serve = Serve(folder, options, "all")
    serve.start()
    yield serve
    serve.stop()


@pytest.fixture
async def transfer(serve: Serve, tmp_path: Path) -> AsyncIterator[Transfer]:
    async with connected(serve.address) as client:
        yield await Transfer.prepared(serve, client, tmp_path)


@pytest.mark.parametrize("number", [1, 3])
async def test_driver_killed_between_plan_and_offset_log_replans_the_batch(
    transfer: Transfer, number: int
) -> None:
    with transfer.run(at=(number, "planned"), sessionId="mine") as first:
        await transfer.wait_until_stopped(first)
        first.kill()
    recorded = list(range(number - 1))
    assert transfer.log("offsets") == recorded
    assert transfer.log("commits") == recorded
    with transfer.run(sessionId="mine") as second:
        await transfer.ends(second)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_driver_killed_before_the_commit_log_repeats_the_batch(transfer: Transfer, when: str) -> None:
    with transfer.run(at=(1, when)) as first:
        await transfer.wait_until_stopped(first)
        first.kill()
    assert (transfer.log("offsets"), transfer.log("commits")) == ([0, 1], [0])
    planned = transfer.planned(1)
    with transfer.run(at=(1, "after")) as second:
        await transfer.wait_until_stopped(second)
        assert transfer.planned(1) == planned
        second.kill()
    with transfer.run() as third:
        await transfer.ends(third)


async def test_killed_executor_loses_no_record(transfer: Transfer) -> None:
    options = {"maxRecordsPerTrigger": "250", "recordsPerTask": "50"}
    with transfer.run(at=(1, "executor"), master=LOCAL_CLUSTER, **options) as program:
        await transfer.ends(program)
    assert (transfer.folder / "killed").exists()


async def test_query_continues_after_a_server_restart(transfer: Transfer) -> None:
    with transfer.run(at=(1, "before")) as program:
        await transfer.wait_until_stopped(program)
        await asyncio.to_thread(transfer.serve.kill)
        transfer.resume()
        await asyncio.to_thread(transfer.serve.start)
        await transfer.ends(program)


async def test_query_without_waiting_fails_when_the_server_dies(transfer: Transfer) -> None:
    with transfer.run(at=(1, "before"), onUnavailable="fail") as program:
        await transfer.wait_until_stopped(program)
        await asyncio.to_thread(transfer.serve.kill)
        transfer.resume()
        failed = await asyncio.to_thread(program.wait_for_value, "failed")
        assert "onUnavailable" in failed
        assert transfer.serve.address in failed
    await asyncio.to_thread(transfer.serve.start)
    with transfer.run() as again:
        await transfer.ends(again)


@pytest.mark.parametrize("strict", ["true", "false"])
async def test_records_deleted_between_plan_and_read_are_reported_or_skipped(
    transfer: Transfer, strict: str
) -> None:
    with transfer.run(at=(1, "before"), failOnDataLoss=strict) as program:
        await transfer.wait_until_stopped(program)
        planned = transfer.planned(1)["r"][transfer.topic]
        (partition, ((first, *_), *_)) = next(iter(planned.items()))
        part = leader.DeleteRecordsRequest.Partition(
            topic_id=transfer.topic_id, partition=int(partition), offset=first + 3
        )
        request = leader.DeleteRecordsRequest(partitions=[part])
        await transfer.client.admin.DeleteRecords(request, timeout=TIMEOUT)
        transfer.resume()
        lost = f"Offsets {first} to {first + 2} of {transfer.topic}-{partition} (3) are no longer in the log"
        if strict == "true":
            assert lost in await asyncio.to_thread(program.wait_for_value, "failed")
        else:
            rows = await asyncio.to_thread(program.wait_for_value, "rows")
            assert len(rows) == 2 * RECORDS - 3
            assert program.value("lost") == 3
            assert lost in program.errors


@pytest.mark.parametrize("choice", ["fail", "continue"])
async def test_batch_longer_than_its_locks_is_written_once(serve: Serve, tmp_path: Path, choice: str) -> None:
    async with connected(serve.address) as client:
        transfer = await Transfer.prepared(serve, client, tmp_path, share_record_lock_duration_ms="1000")
        options = {"maxBatchDurationMs": "1000", "onLeaseLost": choice}
        with transfer.run(at=(1, "before"), **options) as program:
            await transfer.wait_until_stopped(program)
            wanted = {(int(partition), offset)
                      for partition, runs in transfer.planned(1)["r"][transfer.topic].items()
                      for first, last, _ in runs for offset in range(first, last + 1)}  # fmt: skip
            async with asyncio.timeout(START_SECONDS):
                while wanted:  # another consumer processes the released records
                    others = await client.acquire(
                        transfer.group, transfer.topic, 500, member="other", wait=1.0
                    )
                    await client.acknowledge(transfer.group, "other", others.records)
                    wanted -= {(record.partition, record.offset) for record in others.records}
            transfer.resume()
            expected = "took longer than its locks"
            if choice == "fail":
                failed = await asyncio.to_thread(program.wait_for_value, "failed")
                assert expected in failed
                assert "A lock lasts 1 s" in failed
            else:
                await asyncio.to_thread(program.wait_for_value, "rows")
                assert expected in program.errors
