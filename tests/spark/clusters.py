"""`make spark-crashes`: a standalone cluster on loopback, to which the source is shipped with the job."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.sources import ROOT
from tests.spark.environment import ENVIRONMENT, START_SECONDS, needs_spark, variables
from tests.spark.transfers import Transfer
from tests.support.client import connected
from tests.testkit.brokers import one_process
from tests.testkit.waiting import until

pytestmark = [needs_spark, pytest.mark.timeout(4 * START_SECONDS)]
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"


@contextmanager
def _daemon(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """Starts a process of the cluster; returns its log."""
    reports = folder / f"{name}.log"
    command = [str(ENVIRONMENT / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with reports.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, cwd=folder,
            env=variables(folder) | {"SPARK_DAEMON_MEMORY": "256m"},
        )  # fmt: skip
    try:
        yield reports
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Provides a master and a worker with two cores; the master's URL."""
    ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with _daemon(folder, "master.Master", *ports) as master:
        until(lambda: _MASTER.search(master.read_text()) is not None, START_SECONDS)
        found = _MASTER.search(master.read_text())
        assert found
        url = found[1]
        worker_options = (*ports, "--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"), url)
        with _daemon(folder, "worker.Worker", *worker_options) as worker:
            until(lambda: _REGISTERED in worker.read_text(), START_SECONDS)
            yield url


def package(folder: Path) -> Path:
    """Builds the archive of `make spark-package`."""
    shipped = folder / "sharebroker-spark.zip"
    command = [str(ENVIRONMENT / "bin" / "python"), "libs/spark_source/package.py", str(shipped)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=START_SECONDS)
    return shipped


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=variables(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )


async def test_submitted_job_ships_the_source_to_the_cluster(tmp_path: Path) -> None:
    shipped = package(tmp_path)
    with cluster(tmp_path) as url, one_process() as server:
        async with connected(server.address) as client:
            transfer = await Transfer.prepared(server.processes[0], client, tmp_path)
            with transfer.run(master=url, files=str(shipped)) as program:
                await transfer.ends(program)
            # The tasks imported it from the archive, whatever else is installed on this machine.
            places = program.value("places")
            assert places
            assert all(shipped.name in place for place in places), places


async def test_job_is_submitted_with_the_readmes_command(tmp_path: Path) -> None:
    shipped = package(tmp_path)
    with cluster(tmp_path) as url, one_process() as server:
        async with connected(server.address) as client:
            transfer = await Transfer.prepared(server.processes[0], client, tmp_path)
            job = tmp_path / "job.py"
            job.write_text(_JOB)
            command = [str(ENVIRONMENT / "bin" / "spark-submit"), "--master", url, "--py-files", str(shipped)]
            command += ["--executor-memory", "512m", str(job), server.address, transfer.topic, transfer.group]
            command += [str(tmp_path)]
            done = await asyncio.to_thread(_run, command, tmp_path)
            assert done.returncode == 0, done.stderr[-5000:]
            assert done.stdout.splitlines()[-1] == "500 records"


_JOB: Final = """
import sys
from pyspark.sql import SparkSession
import sharebroker_spark

address, topic, group, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
sharebroker_spark.register(spark)
stream = spark.readStream.format("sharegroup").option("bootstrap", address).option("topics", topic)
query = (
    stream.option("group", group).load().writeStream.format("parquet").option("path", f"{folder}/out")
    .option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
print(spark.read.parquet(f"{folder}/out").count(), "records")
"""
