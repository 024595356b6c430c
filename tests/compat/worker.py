"""Runs test methods one after the other in a JVM, and starts the servers that these require."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.compat.jvm import Jvm, JvmEnded
from tests.support.kafka_clusters import Cluster, ClusterFailed
from tests.support.kafka_tools import ToolFailed

MakeCluster = Callable[[Path, int, Mapping[str, str], Mapping[str, int]], Cluster]
"""In a folder, with this many brokers, with these broker properties and levels of features."""


@dataclass(frozen=True, slots=True)
class Case:
    """The result of one case of a test method; `error` in a line, `trace` with the Java stack trace."""

    name: str
    outcome: str
    seconds: float = 0.0
    error: str = ""
    trace: str = ""
    tries: int = 1


class Worker:
    """Runs one JVM at a time. `classes` has our classes; `folder` receives the output of servers and
    tests. `defaults` are properties of servers whose test does not set them.
    """

    def __init__(
        self,
        tests: str,
        make_cluster: MakeCluster,
        classes: Path,
        folder: Path,
        defaults: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._tests = tests
        self._defaults = defaults
        self._classes = classes
        self._make_cluster = make_cluster
        self._folder = folder
        self._jvm: Jvm | None = None
        self._cluster: Cluster | None = None
        self._started = 0

    def methods(self) -> list[str]:
        """Returns the test methods."""
        return self._running().methods

    def run(self, method: str, limit: float) -> list[Case]:
        """Runs the cases of a method. After `limit` seconds it has failed, and the next gets a new JVM."""
        begun = time.monotonic()
        try:
            jvm = self._running()
            with jvm.limited(limit):
                jvm.send({"run": method})
                return [Case(**case) for case in self._until_done(jvm, method)]
        except JvmEnded as ended:
            took = time.monotonic() - begun
            self.close()
            reason = f"not done after {limit:g} s" if took >= limit else str(ended)
            return [Case(method, "failed", took, reason)]

    def close(self) -> None:
        """Ends the JVM and its servers."""
        self._stop_cluster()
        if self._jvm is not None:
            self._jvm.close()
            self._jvm = None

    def _running(self) -> Jvm:
        if self._jvm is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._jvm = Jvm(self._tests, self._classes, self._folder / "tests.log")
        return self._jvm

    def _until_done(self, jvm: Jvm, method: str) -> list[dict[str, Any]]:
        while True:
            message = jvm.receive()
            if "cases" in message:
                cases: list[dict[str, Any]] = message["cases"]
                return cases
            jvm.send(self._answer(method, message))

    def _answer(self, method: str, question: dict[str, Any]) -> dict[str, Any]:
        try:
            match question["ask"]:
                case "start":
                    return {"addresses": self._start(method, question)}
                case "stop":
                    self._stop_cluster()
                case "stop-broker":
                    self._needed().stop_broker(question["id"])
                case "start-broker":
                    self._needed().start_broker(question["id"])
        except (ClusterFailed, ToolFailed) as failure:
            return {"error": str(failure)}
        return {}

    def _start(self, method: str, question: Mapping[str, Any]) -> dict[int, str]:
        self._stop_cluster()
        self._started += 1
        folder = self._folder / f"{self._started:03}-{method}"
        properties = {**self._defaults, **question["properties"]}
        self._cluster = self._make_cluster(folder, question["brokers"], properties, question["features"])
        self._cluster.start()
        return self._cluster.addresses

    def _needed(self) -> Cluster:
        if self._cluster is None:
            raise ClusterFailed("no cluster runs")
        return self._cluster

    def _stop_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None
