"""The servers that the tests of one run share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import redis

from tests.testkit.redis_cluster import redis_cluster
from tests.testkit.servers import DOCKER, container, running

CLUSTER = "cluster"
"""The kind of server that consists of three Valkeys in a Redis Cluster."""


@dataclass
class Servers:
    """The servers of one test run by kind; each starts on first use and is emptied for every test."""

    _urls: dict[str, str] = field(default_factory=dict)
    _flushes: dict[str, Callable[[], None]] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def fresh(self, kind: str) -> str:
        """Returns the URL of an empty server of a kind."""
        if kind not in self._urls:
            self._start(kind)
        self._flushes[kind]()
        return self._urls[kind]

    def _start(self, kind: str) -> None:
        if kind == CLUSTER:
            cluster = self._stack.enter_context(redis_cluster("valkey", replicas=0))
            self._urls[kind], self._flushes[kind] = cluster.url, cluster.flush
            return
        url = self._stack.enter_context(container() if kind == DOCKER else _local(kind))
        self._urls[kind], self._flushes[kind] = url, partial(_flush, url)

    def close(self) -> None:
        """Stops all servers."""
        self._stack.close()


def _flush(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()


@contextlib.contextmanager
def _local(kind: str) -> Iterator[str]:
    with running(kind, "--appendonly", "no") as server:
        yield server.url
