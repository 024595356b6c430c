"""Driver and server killed between plan and commit, and two drivers on one checkpoint: each record once.

One sequence for every run of the tests; `make spark-crashes` has a test for each moment.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.spark.environment import START_SECONDS, needs_spark
from tests.spark.transfers import Transfer
from tests.support.client import connected
from tests.testkit.brokers import Serve

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
            transfer = await Transfer.prepared(serve, client, tmp_path)

            # Killed with a batch written, and not recorded as done.
            with transfer.run(at=(1, "after")) as first:
                await transfer.wait_until_stopped(first)
                first.kill()
            assert (transfer.log("offsets"), transfer.log("commits")) == ([0, 1], [0])
            planned = transfer.planned(1)

            # The next waits in a batch that is planned and not written; its server dies.
            with transfer.run(at=(2, "before")) as second:
                await transfer.wait_until_stopped(second)
                assert (transfer.log("offsets"), transfer.log("commits")) == ([0, 1, 2], [0, 1])
                assert transfer.planned(1) == planned
                await asyncio.to_thread(serve.kill)
                await asyncio.to_thread(serve.start)

                # A third driver starts on the same checkpoint; it takes over and finishes the work.
                with transfer.run() as third:
                    await transfer.ends(third)

                # The second resumes and is fenced.
                transfer.resume()
                failed = await asyncio.to_thread(second.wait_for_value, "failed")
                assert "concurrent" in failed.lower() or "Another driver" in failed
    finally:
        await asyncio.to_thread(serve.stop)
