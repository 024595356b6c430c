"""Kafka's command line tools, unmodified, against one Sharebroker."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import pytest

from tests.support.client import unique
from tests.support.kafka_scripts import MAIN_CLASSES
from tests.support.kafka_tools import Ran, java, java_environment, needs_kafka, run_tool
from tests.testkit.brokers import one_process


@dataclass(frozen=True)
class Tools:
    """Runs tools against the broker at `address`."""

    address: str

    def __call__(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        """Runs a tool that has to succeed; returns its result. Raises ToolFailed."""
        return self.attempt(tool, *arguments, stdin=stdin).checked()

    def attempt(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        """Runs a tool; returns its result."""
        return run_tool(MAIN_CLASSES[tool], *self._where(tool, arguments), stdin=stdin)

    @contextlib.contextmanager
    def running(self, tool: str, *arguments: str) -> Iterator[IO[str]]:
        """Provides the output of a tool that runs until the end of the block."""
        command = java(MAIN_CLASSES[tool], *self._where(tool, arguments))
        with subprocess.Popen(
            command, env=java_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.terminate()

    def topic(self, partitions: int = 1) -> str:
        """Creates a topic for one test."""
        name = unique("topic")
        self("kafka-topics", "--create", "--topic", name, "--partitions", str(partitions))
        return name

    def group(self) -> str:
        """Creates a group that starts at the log start; returns its id."""
        name = unique("group")
        of_group = ("--entity-type", "groups", "--entity-name", name)
        self("kafka-configs", "--alter", *of_group, "--add-config", "share.auto.offset.reset=earliest")
        return name

    def _where(self, tool: str, arguments: tuple[str, ...]) -> list[str]:
        at = 1 if tool == "kafka-cluster" else 0
        return [*arguments[:at], "--bootstrap-server", self.address, *arguments[at:]]


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    """Provides Kafka's tools and a Sharebroker of their own."""
    with one_process() as cluster:
        yield Tools(cluster.kafka)


@pytest.hookimpl(tryfirst=True)  # before the tests of one module are given to one worker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these share one server, so one worker runs them."""
    for item in items:
        if "tests/compat/tools/" in item.nodeid:
            item.add_marker(needs_kafka)
            item.add_marker(pytest.mark.xdist_group("kafka tools"))
