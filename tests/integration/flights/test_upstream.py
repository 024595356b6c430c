"""The job of `make run` with its records in a Kafka cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from os import environ
from pathlib import Path

import pytest

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.flights.core.flight import Flight
from sharebroker_server.flights.upstream import NoUpstreamError, UpstreamPublisher, create_topic
from tests.architecture.sources import ROOT
from tests.support.kafka_tools import needs_kafka
from tests.testkit.servers import free_port

ROWS = 12_000
FLIGHT = Flight("2013-01-01", "UA", "1", "N1", "EWR", "IAH", 517, 2, 11)


def run(program: str, *options: str, env: Mapping[str, str] = environ) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", program, "--once", "--grpc", "127.0.0.1:0", "--kafka", "127.0.0.1:0"]
    return subprocess.run(
        [*command, *options], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


@needs_kafka
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_flights_in_kafka_are_finished_exactly_once() -> None:
    done = run("tests.support.flights_over_kafka", "--rows", str(ROWS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"records in Kafka at 127\.0\.0\.1:\d+\.\n", done.stdout) is not None
    assert re.search(r"\[worker-\d was killed \(SIGKILL\)\]", done.stdout) is not None
    assert re.search(rf"published {ROWS:,} = accepted [\d,]+ \+ rejected [\d,]+\n", done.stdout) is not None
    assert "Verdict: every record was finished exactly once." in done.stdout


def test_missing_java_is_one_sentence_and_code_2(tmp_path: Path) -> None:
    done = run("tests.support.flights_over_kafka", env={**environ, "PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Java 17 is needed to run Kafka: ")
    assert len(done.stderr.splitlines()) == 1


async def test_unreachable_cluster_is_one_sentence() -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    with pytest.raises(NoUpstreamError, match=f"Kafka at {bootstrap} cannot be used: "):
        await create_topic(bootstrap, "flights", 1)
    with pytest.raises(KafkaError, match=f"Kafka at {bootstrap} did not store all flights: "):
        await UpstreamPublisher(bootstrap, "flights", {0: 0}).publish([FLIGHT])
