"""Driver and server killed between plan and commit, and two drivers on one checkpoint: each record once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from libs.testkit.brokers import Serve
from tests.spark.environment import START_SECONDS, needs_spark, running
from tests.support.client import connected

PARTITIONS, RECORDS = 2, 250
pytestmark = [
    needs_spark,
    pytest.mark.slow,
    pytest.mark.timeout(4 * START_SECONDS),
    pytest.mark.xdist_group("spark crashes"),
]


async def test_every_record_is_written_once(tmp_path: Path) -> None:
    serve = Serve(tmp_path, ["--data", str(tmp_path / "data")], "all")
    await asyncio.to_thread(serve.start)
    try:
        async with connected(serve.address) as client:
            topic, topic_id = await client.create(PARTITIONS)
            group = await client.group()
            for partition in range(PARTITIONS):
                await client.publish(topic, map(str, range(RECORDS)), partition=partition)
            arguments = (serve.address, topic, group, str(tmp_path))

            # Killed with a batch written, and not recorded as done.
            with running("transfer", tmp_path / "first", *arguments, "1", "after") as first:
                await asyncio.to_thread(first.says, "stands")
                first.kill()

            # The next stands still in a batch that is planned and not written; the server dies under it.
            with running("transfer", tmp_path / "second", *arguments, "2", "before") as second:
                await asyncio.to_thread(second.says, "stands")
                await asyncio.to_thread(serve.kill)
                await asyncio.to_thread(serve.start)

                # Somebody starts a third on the same checkpoint; it takes over, and ends the work.
                with running("transfer", tmp_path / "third", *arguments, "none", "none") as third:
                    rows = await asyncio.to_thread(third.says, "rows")
                    assert await asyncio.to_thread(third.ends) == 0

                # The second wakes, and is told.
                (tmp_path / "go").touch()
                failed = await asyncio.to_thread(second.says, "failed")
                assert "concurrent" in failed.lower() or "Another driver" in failed

            assert [row[:3] for row in rows] == [
                [partition, offset, str(offset)]
                for partition in range(PARTITIONS)
                for offset in range(RECORDS)
            ]
            for partition in range(PARTITIONS):
                assert await client.finished(group, topic_id, partition) == set(range(RECORDS))
    finally:
        await asyncio.to_thread(serve.stop)
