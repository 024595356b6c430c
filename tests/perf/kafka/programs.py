"""The programs that drive both systems: Kafka's tools, a small Java one, and librdkafka's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from tests.perf.figures import percentile
from tests.perf.kafka.librdkafka import PASSES
from tests.perf.kafka.load import PATIENCE, ProducerReports, Reader, drive, read_sample
from tests.perf.processes import ROOT, BenchFailed, environment, python
from tests.perf.procfs import Usage, usage
from tests.perf.steady import Measured, Meter, Rule
from tests.support.kafka_jars import CLIENTS, SERVER, JarSet
from tests.testkit.waiting import until

CLIENT_FLAGS: Final = ("-Xmx512M", "-XX:+UseG1GC")
"""The JVM options of Kafka's own scripts. The compiler of a JVM is never restricted here."""

JAVA_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
"""Variables that add flags to every JVM; no JVM of the benchmark gets them."""

SOURCE: Final = Path(__file__).with_name("ShareBench.java")
TOPIC: Final = "bench"
PRODUCED: Final = "produced"
EMPTY: Final = "empty"
PARTITIONS: Final = 4
RECORD_BYTES: Final = 100
MANY: Final = 2_000_000_000
"""Records for a producer that is ended before it has sent them."""

LIMIT_SECONDS: Final = 300.0
REPORT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amount of work of each program. `filled`: records of the topic that is read; times in seconds."""

    filled: int = 8_000_000
    seconds: float = 10.0
    warm_records: int = 400_000
    warm_single: int = 3_000
    warm_most: float = 40.0
    window: float = 1.0
    settle: float = 1.0
    whole: int = 2_000_000
    idle: int = 1_000
    idle_seconds: float = 20.0

    def divided(self, slices: int) -> Sizes:
        """Returns the sizes of one of several slices, which together measure for the same time."""
        return replace(
            self, filled=self.filled // slices, seconds=self.seconds / slices, window=self.window / slices
        )

    def rule(self, least: int) -> Rule:
        """When a program that has done at least so many records is warm."""
        return Rule(least, most_seconds=self.warm_most, window=self.window)


QUICK: Final = Sizes(
    filled=3_000_000,
    seconds=3.0,
    warm_records=200_000,
    warm_single=500,
    warm_most=10.0,
    window=0.5,
    settle=0.5,
    whole=500_000,
    idle_seconds=5.0,
)


@dataclass(frozen=True, slots=True)
class Target:
    """A server to drive: where Kafka clients connect, its processes, and properties for clients (TLS).

    `upstream` is the Kafka cluster that has its topics, if that is another one.
    """

    bootstrap: str
    pids: tuple[int, ...]
    client_config: Path | None = None
    upstream: str = ""

    def usage(self) -> Usage:
        """CPU and memory of its processes and their children."""
        return usage(self.pids)


Program = Callable[[], Mapping[str, float]]

CONSUMERS: Final = ("implicit1", "implicit4", "explicit1", "explicit4", "commit", "single1", "single8")
PLAIN: Final = (
    "producer",
    "whole",
    *CONSUMERS,
    "librdkafka_produce",
    "librdkafka_consume",
    "idle",
)
OVER_TLS: Final = ("producer", "implicit1", "implicit4")
"""Programs that run on a server with TLS as well."""


class Programs:
    """All programs for one server. Each returns figures by their names; each raises BenchFailed.

    Programs that were not steady are noted in `notes`, after the words of `prefix`.
    """

    def __init__(
        self, target: Target, sizes: Sizes, notes: list[str] | None = None, prefix: str = ""
    ) -> None:
        self._target = target
        self._sizes = sizes
        self._runs = 0
        self.notes = [] if notes is None else notes
        self._prefix = prefix

    def prepare(self, wanted: Collection[str]) -> Mapping[str, float]:
        """Creates the topics and fills the one that is read; the server's memory after that, in megabytes."""
        for topic in (TOPIC, PRODUCED, EMPTY):
            self._topic("--create", topic, "--partitions", str(PARTITIONS))
        if not any(name in wanted for name in (*CONSUMERS, "whole", "librdkafka_consume")):
            return {}
        words = [*self._producer_words(TOPIC, self._sizes.filled)]
        _kafka_tool("org.apache.kafka.tools.ProducerPerformance", *words)
        return {"filled": self._target.usage().rss / 1e6}

    def run(self, name: str) -> Mapping[str, float]:
        """Runs one program."""
        self._runs += 1
        match re.fullmatch(r"(implicit|explicit|commit|single)(\d*)", name):
            case re.Match() as found:
                return self._consumer(name, found[1], int(found[2] or 1))
        others: dict[str, Program] = {
            "producer": self._producer,
            "whole": self._whole,
            "librdkafka_produce": lambda: self._librdkafka("produce", PRODUCED),
            "librdkafka_consume": lambda: self._librdkafka("consume", TOPIC),
            "idle": self._idle,
        }
        return others[name]()

    def _producer(self) -> Mapping[str, float]:
        words = [*self._producer_words(PRODUCED, MANY), "--reporting-interval", str(REPORT_MS)]
        command = java("org.apache.kafka.tools.ProducerPerformance", *words)
        figures = self._figures("producer", command, java_environment(SERVER), read=ProducerReports())
        self._topic("--delete", PRODUCED)
        self._topic("--create", PRODUCED, "--partitions", str(PARTITIONS))
        return figures

    def _producer_words(self, topic: str, records: int) -> Sequence[str]:
        words = ["--topic", topic, "--num-records", str(records), "--throughput", "-1"]
        words += ["--record-size", str(RECORD_BYTES), "--command-property", "acks=all"]
        return [*words, *self._log("--command-config")]

    def _consumer(self, name: str, mode: str, members: int) -> Mapping[str, float]:
        target, sizes = self._target, self._sizes
        words = [mode, target.bootstrap, TOPIC, self._group(name), str(sizes.filled), str(members)]
        words += [str(target.client_config)] if target.client_config else []
        # java compiles a single file when it is given one
        command, variables = java(str(SOURCE), *words), java_environment(CLIENTS["4.3.1"])
        least = sizes.warm_single if mode == "single" else sizes.warm_records
        return self._figures(name, command, variables, least)

    def _librdkafka(self, case: str, topic: str) -> Mapping[str, float]:
        group, filled = self._group(case), str(self._sizes.filled)
        words = ["groups", self._target.bootstrap, topic, group, filled, str(PASSES)]
        _output(java(str(SOURCE), *words), java_environment(CLIENTS["4.3.1"]))
        command = python("tests.perf.kafka.librdkafka", case, self._target.bootstrap, topic, group, filled)
        return self._figures(f"librdkafka {case}", command, environment())

    def _figures(
        self,
        name: str,
        command: Sequence[str],
        variables: Mapping[str, str],
        least: int | None = None,
        read: Reader = read_sample,
    ) -> Mapping[str, float]:
        sizes = self._sizes
        meter = Meter(sizes.rule(sizes.warm_records if least is None else least), sizes.seconds, sizes.settle)
        limit = sizes.warm_most + 3 * sizes.seconds + PATIENCE
        measured = drive(command, variables, self._target.usage, meter, limit, read)
        if not measured.steady:
            warm = f"not steady after {measured.warm_seconds:.0f} s, measured nevertheless"
            self.notes.append(f"{self._prefix}{name}: {warm}")
        return figures_of(measured)

    def _whole(self) -> Mapping[str, float]:
        records = self._sizes.whole
        self._start_groups("whole")
        words = ["--topic", TOPIC, "--group", "whole-0", "--num-records", str(records), "--timeout", "30000"]
        before = self._target.usage().cpu
        main = "org.apache.kafka.tools.ShareConsumerPerformance"
        out = _kafka_tool(main, *words, *self._server("--command-config"))
        used = self._target.usage().cpu - before
        header, *_, last = (line.split(", ") for line in out.splitlines() if ", " in line)
        return {"rate": float(last[header.index("nMsg.sec")]), "server_cpu": used / records * 1e6}

    def _idle(self) -> Mapping[str, float]:
        sizes = self._sizes
        words = [self._target.bootstrap, EMPTY, str(sizes.idle), str(sizes.idle_seconds)]
        command = python("tests.perf.kafka.idle", *words, *map(str, self._target.pids))
        found: dict[str, float] = json.loads(_output(command, environment()).splitlines()[-1])
        return found

    def _start_groups(self, group: str) -> None:
        words = ["groups", self._target.bootstrap, TOPIC, group, "0", "1"]
        words += [str(self._target.client_config)] if self._target.client_config else []
        _output(java(str(SOURCE), *words), java_environment(CLIENTS["4.3.1"]))

    def _topic(self, action: str, topic: str, *words: str) -> None:
        main = "org.apache.kafka.tools.TopicCommand"
        _kafka_tool(main, action, "--topic", topic, *words, *self._log("--command-config"))
        if self._target.upstream:
            admin = AdminClient({"bootstrap.servers": self._target.bootstrap})
            present = action == "--create"
            until(lambda: (topic in admin.list_topics(timeout=PATIENCE).topics) == present, PATIENCE)

    def _group(self, name: str) -> str:
        """A prefix for groups that no run on this server has used."""
        return f"{name}-{self._runs}"

    def _server(self, option: str) -> tuple[str, ...]:
        return self._address(self._target.bootstrap, option)

    def _log(self, option: str) -> tuple[str, ...]:
        """The options that name the cluster with the topics."""
        return self._address(self._target.upstream or self._target.bootstrap, option)

    def _address(self, bootstrap: str, option: str) -> tuple[str, ...]:
        config = self._target.client_config
        return "--bootstrap-server", bootstrap, *((option, str(config)) if config else ())


def figures_of(measured: Measured) -> dict[str, float]:
    """A program's figures; CPU in microseconds a record, memory in megabytes, times in milliseconds."""
    found = {
        "records": float(measured.records),
        "rate": measured.rate,
        "server_cpu": measured.cpu_per_record,
        "rss": measured.rss / 1e6,
        "steady": float(measured.steady),
        "warm_seconds": measured.warm_seconds,
    }
    if measured.latencies:
        found |= {"p50": percentile(measured.latencies, 0.5), "p99": percentile(measured.latencies, 0.99)}
    return found


def java(main: str, *arguments: str, flags: Sequence[str] = CLIENT_FLAGS) -> list[str]:
    """A command that runs a main class, or a source file."""
    return ["java", *flags, main, *arguments]


def java_environment(jars: JarSet) -> dict[str, str]:
    """An environment with the class path of a set of jars, and without variables that add flags."""
    kept = {name: value for name, value in os.environ.items() if name not in JAVA_VARIABLES}
    return {**kept, "CLASSPATH": jars.class_path}


def _kafka_tool(main: str, *words: str) -> str:
    return _output(java(main, *words), java_environment(SERVER))


def _output(command: Sequence[str], env: Mapping[str, str]) -> str:
    name, begun = Path(command[0]).name, time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchFailed(f"{name}: not done after {time.monotonic() - begun:.0f} s") from None
    if done.returncode:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise BenchFailed(f"{name}: {words[-1] if words else f'exit code {done.returncode}'}")
    return done.stdout.strip()
