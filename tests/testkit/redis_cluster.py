"""A Redis Cluster on loopback: primaries that share the slots, and replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis

from sharebroker_server.redis_link.cluster import SLOTS, slot_of
from tests.testkit.servers import Server, free_port, running
from tests.testkit.waiting import until

START_SECONDS: Final = 60.0
NODE_TIMEOUT: Final = 2.0
"""Seconds without a response after which a node counts as failing."""

_NODE: Final = (
    *("--cluster-enabled", "yes", "--cluster-node-timeout", str(round(NODE_TIMEOUT * 1000))),
    *("--repl-diskless-sync-delay", "0"),
)


@dataclass(frozen=True)
class RedisCluster:
    """The nodes of the cluster; `url` names the first of them."""

    nodes: Sequence[Server]

    @property
    def url(self) -> str:
        """The URL for clients."""
        return self.nodes[0].url

    def node(self, number: int) -> redis.Redis:
        """Returns a connection to a node."""
        return redis.Redis.from_url(self.nodes[number].url, socket_timeout=5.0)

    def execute(self, number: int, *command: Any) -> Any:
        """Returns a node's reply to a command."""
        with self.node(number) as connection:
            return connection.execute_command(*command)

    def primary_of(self, key: str) -> int:
        """Returns the number of the node that serves a key, according to a running node."""
        [port] = [node[1] for first, last, node, *_ in self._slots() if first <= slot_of(key) <= last]
        return next(number for number, node in enumerate(self.nodes) if node.port == port)

    def move(self, key: str, to: int) -> None:
        """Moves the slot of a key to another node, with all its keys."""
        slot, here = slot_of(key), self.primary_of(key)
        ids = {number: self.execute(number, "CLUSTER", "MYID").decode() for number in self._primaries()}
        self.execute(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[here])
        self.execute(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
        while keys := self.execute(here, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            self.execute(here, "MIGRATE", "127.0.0.1", self.nodes[to].port, "", 0, 5000, "KEYS", *keys)
        for number in (to, here, *ids):
            self.execute(number, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])

    def flush(self) -> None:
        """Deletes all keys."""
        for number in self._primaries():
            self.execute(number, "FLUSHALL")

    def _primaries(self) -> list[int]:
        ports = {node[1] for _, _, node, *_ in self._slots()}
        return [number for number, node in enumerate(self.nodes) if node.port in ports]

    def _slots(self) -> Any:
        for number in range(len(self.nodes)):
            with contextlib.suppress(redis.RedisError):
                return self.execute(number, "CLUSTER SLOTS")
        raise AssertionError("no node of the cluster responds")

    def in_sync(self, number: int) -> bool:
        """Returns whether the replicas of a node have received all writes."""
        with self.node(number) as connection:
            facts: dict[str, Any] = connection.info("replication")
        replicas = [facts[f"slave{n}"] for n in range(facts["connected_slaves"])]
        return bool(replicas) and all(
            replica["offset"] >= facts["master_repl_offset"] for replica in replicas
        )


@contextlib.contextmanager
def redis_cluster(kind: str, primaries: int = 3, replicas: int = 3, *options: str) -> Iterator[RedisCluster]:
    """Provides a cluster of a kind from `binaries()`; all slots are served and replicas are in sync."""
    with contextlib.ExitStack() as stack:
        bus = [free_port() for _ in range(primaries + replicas)]
        nodes = [
            stack.enter_context(running(kind, *_NODE, "--cluster-port", str(port), *options)) for port in bus
        ]
        cluster = RedisCluster(nodes)
        for number in range(primaries):
            first, last = number * SLOTS // primaries, (number + 1) * SLOTS // primaries - 1
            cluster.execute(number, "CLUSTER", "ADDSLOTSRANGE", first, last)
            cluster.execute(number, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, port in zip(nodes[1:], bus[1:], strict=True):
            cluster.execute(0, "CLUSTER", "MEET", "127.0.0.1", node.port, port)
        until(lambda: all(_is_complete(cluster, number) for number in range(len(nodes))), START_SECONDS)
        for number in range(replicas):
            name = cluster.execute(number % primaries, "CLUSTER", "MYID").decode()
            cluster.execute(primaries + number, "CLUSTER", "REPLICATE", name)
        until(
            lambda: all(_lists_replicas(cluster, number, replicas) for number in range(len(nodes))),
            START_SECONDS,
        )
        until(lambda: all(map(cluster.in_sync, range(min(primaries, replicas)))), START_SECONDS)
        yield cluster


def _is_complete(cluster: RedisCluster, number: int) -> bool:
    facts: dict[str, str] = cluster.execute(number, "CLUSTER INFO")
    return facts["cluster_state"] == "ok" and int(facts["cluster_known_nodes"]) == len(cluster.nodes)


def _lists_replicas(cluster: RedisCluster, number: int, replicas: int) -> bool:
    return sum(len(slot_range) - 3 for slot_range in cluster.execute(number, "CLUSTER SLOTS")) == replicas
