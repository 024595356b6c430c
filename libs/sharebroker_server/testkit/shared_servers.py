"""The servers that the tests of one run have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import redis

from sharebroker_server.testkit.redis_cluster import redis_cluster
from sharebroker_server.testkit.servers import DOCKER, container, running

CLUSTER = "cluster"
"""The kind of server that is three Valkeys with a share of the keys each."""


@dataclass
class Servers:
    """The servers of one test run by kind, each started at first use and emptied for every test."""

    _urls: dict[str, str] = field(default_factory=dict)
    _flushes: dict[str, Callable[[], None]] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def fresh(self, kind: str) -> str:
        """The URL of the kind's server, with no data in it."""
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
        """Stop them all."""
        self._stack.close()


def _flush(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushall()


@contextlib.contextmanager
def _local(kind: str) -> Iterator[str]:
    with running(kind, "--appendonly", "no") as server:
        yield server.url
