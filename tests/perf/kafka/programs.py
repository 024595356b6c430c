"""The programs that drive both systems: Kafka's tools, our small Java one, and librdkafka's."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.perf.processes import ROOT, BenchFailed, environment, python
from tests.support.kafka_clusters import Cluster
from tests.support.kafka_jars import CLIENTS, SERVER
from tests.support.kafka_tools import java, java_environment

CLIENT_FLAGS: Final = ("-Xmx512M", "-XX:+UseG1GC")
"""What Kafka's own scripts give a tool."""

SOURCE: Final = Path(__file__).with_name("ShareBench.java")
TOPIC: Final = "bench"
EMPTY: Final = "empty"
PARTITIONS: Final = 4
RECORD_BYTES: Final = 100
LIMIT_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many records each program works off."""

    records: int = 2_000_000
    commit: int = 500_000
    single: int = 3_000
    idle: int = 1_000
    idle_seconds: float = 20.0


QUICK: Final = Sizes(400_000, 200_000, 500, 1_000, 5.0)

Program = Callable[[], dict[str, float]]


class Programs:
    """All of them for one server; the first fills the topic from which the others read."""

    def __init__(self, cluster: Cluster, sizes: Sizes) -> None:
        self._bootstrap = ",".join(cluster.addresses.values())
        self._pids = cluster.pids
        self._sizes = sizes

    def all(self) -> Iterator[tuple[str, Program]]:
        """In their order, each with the name that its figures' keys begin with."""
        records = self._sizes.records
        yield "producer", self._producer
        yield "whole", self._whole
        yield "steady1", lambda: self._java("steady", records, 1)
        yield "steady4", lambda: self._java("steady", records, 4)
        yield "commit", lambda: self._java("commit", self._sizes.commit)
        yield "single", lambda: self._java("single", self._sizes.single)
        yield "librdkafka_produce", lambda: self._librdkafka("produce", records // 4)
        yield "librdkafka_consume", lambda: self._librdkafka("consume", records // 4)
        yield "idle", self._idle

    def make_topics(self) -> None:
        """The topic that is filled, and one that stays empty. Raises BenchFailed."""
        for topic in (TOPIC, EMPTY):
            words = ["--create", "--topic", topic, "--partitions", str(PARTITIONS)]
            _kafka_tool("org.apache.kafka.tools.TopicCommand", *self._server(), *words)

    def _producer(self) -> dict[str, float]:
        words = ["--topic", TOPIC, "--num-records", str(self._sizes.records), "--throughput", "-1"]
        words += ["--record-size", str(RECORD_BYTES), "--command-property", "acks=all"]
        out = _kafka_tool("org.apache.kafka.tools.ProducerPerformance", *self._server(), *words)
        return {"rate": _number(r"records sent, ([\d.]+) records/sec", out.splitlines()[-1])}

    def _whole(self) -> dict[str, float]:
        words = ["--topic", TOPIC, "--group", self._new_group("whole")]
        words += ["--num-records", str(self._sizes.records)]
        main = "org.apache.kafka.tools.ShareConsumerPerformance"
        out = _kafka_tool(main, *self._server(), *words, "--timeout", "30000")
        header, *_, last = (line.split(", ") for line in out.splitlines() if ", " in line)
        return {"rate": float(last[header.index("nMsg.sec")])}

    def _java(self, case: str, records: int, members: int = 1) -> dict[str, float]:
        group = self._new_group(f"{case}-{members}")
        words = [case, self._bootstrap, TOPIC, group, str(records), str(members)]
        command = java(str(SOURCE), *words, flags=CLIENT_FLAGS)  # java compiles a single file by itself
        return _figures(_output(command, java_environment(CLIENTS["4.3.1"])))

    def _librdkafka(self, case: str, records: int) -> dict[str, float]:
        words = [case, self._bootstrap, TOPIC, self._new_group(f"librdkafka-{case}"), str(records)]
        return _figures(_output(python("tests.perf.kafka.librdkafka", *words), environment()))

    def _idle(self) -> dict[str, float]:
        sizes = self._sizes
        words = [self._bootstrap, EMPTY, str(sizes.idle), str(sizes.idle_seconds), *map(str, self._pids)]
        return _figures(_output(python("tests.perf.kafka.idle", *words), environment()))

    def _new_group(self, name: str) -> str:
        """A group that starts at the earliest record."""
        words = ["--alter", "--entity-type", "groups", "--entity-name", name]
        words += ["--add-config", "share.auto.offset.reset=earliest"]
        _kafka_tool("kafka.admin.ConfigCommand", *self._server(), *words)
        return name

    def _server(self) -> tuple[str, str]:
        return "--bootstrap-server", self._bootstrap


def _kafka_tool(main: str, *words: str) -> str:
    return _output(java(main, *words, flags=CLIENT_FLAGS), java_environment(SERVER))


def _output(command: Sequence[str], env: dict[str, str]) -> str:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"{name}: not done after {LIMIT_SECONDS:g} s") from None
    if done.returncode:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise BenchFailed(f"{name}: {words[-1] if words else f'exit code {done.returncode}'}")
    return done.stdout.strip()


def _figures(out: str) -> dict[str, float]:
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise BenchFailed(f"no figure in: {text}")
    return float(found.group(1))
