"""A Redis Cluster on loopback: primaries with a share of the slots each, and replicas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import redis

from sharebroker_server.redis_link.topology.slots import SLOTS, slot_of
from sharebroker_server.testkit.servers import Server, free_port, running
from sharebroker_server.testkit.waiting import until

PATIENCE: Final = 60.0
NODE_TIMEOUT: Final = 2.0
"""Seconds of silence after which a node counts as failing."""

_NODE: Final = (
    *("--cluster-enabled", "yes", "--cluster-node-timeout", str(round(NODE_TIMEOUT * 1000))),
    *("--repl-diskless-sync-delay", "0"),
)


@dataclass(frozen=True)
class RedisCluster:
    """Its nodes; `url` names the first of them, as a user would."""

    nodes: Sequence[Server]

    @property
    def url(self) -> str:
        """Where clients begin."""
        return self.nodes[0].url

    def node(self, number: int) -> redis.Redis:
        """A connection to a node."""
        return redis.Redis.from_url(self.nodes[number].url, socket_timeout=5.0)

    def told(self, number: int, *command: Any) -> Any:
        """What a node answers."""
        with self.node(number) as connection:
            return connection.execute_command(*command)

    def primary_of(self, key: str) -> int:
        """The number of the node that serves a key, as one that runs says."""
        [port] = [node[1] for first, last, node, *_ in self._slots() if first <= slot_of(key) <= last]
        return next(number for number, node in enumerate(self.nodes) if node.port == port)

    def move(self, key: str, to: int) -> None:
        """Have another node serve the slot of a key, with all that is in it."""
        slot, here = slot_of(key), self.primary_of(key)
        ids = {number: self.told(number, "CLUSTER", "MYID").decode() for number in self._primaries()}
        self.told(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[here])
        self.told(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
        while keys := self.told(here, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            self.told(here, "MIGRATE", "127.0.0.1", self.nodes[to].port, "", 0, 5000, "KEYS", *keys)
        for number in (to, here, *ids):
            self.told(number, "CLUSTER", "SETSLOT", slot, "NODE", ids[to])

    def flush(self) -> None:
        """Forget all keys."""
        for number in self._primaries():
            self.told(number, "FLUSHALL")

    def _primaries(self) -> list[int]:
        ports = {node[1] for _, _, node, *_ in self._slots()}
        return [number for number, node in enumerate(self.nodes) if node.port in ports]

    def _slots(self) -> Any:
        for number in range(len(self.nodes)):
            with contextlib.suppress(redis.RedisError):
                return self.told(number, "CLUSTER SLOTS")
        raise AssertionError("no node of the cluster answers")

    def in_step(self, number: int) -> bool:
        """Whether replicas of a node have all that was written so far."""
        with self.node(number) as connection:
            facts: dict[str, Any] = connection.info("replication")
        replicas = [facts[f"slave{n}"] for n in range(facts["connected_slaves"])]
        return bool(replicas) and all(one["offset"] >= facts["master_repl_offset"] for one in replicas)


@contextlib.contextmanager
def redis_cluster(kind: str, primaries: int = 3, replicas: int = 3, *options: str) -> Iterator[RedisCluster]:
    """A cluster of servers of a kind from `binaries()`; every slot is served and replicas follow."""
    with contextlib.ExitStack() as stack:
        bus = [free_port() for _ in range(primaries + replicas)]
        nodes = [
            stack.enter_context(running(kind, *_NODE, "--cluster-port", str(port), *options)) for port in bus
        ]
        cluster = RedisCluster(nodes)
        for number in range(primaries):
            first, last = number * SLOTS // primaries, (number + 1) * SLOTS // primaries - 1
            cluster.told(number, "CLUSTER", "ADDSLOTSRANGE", first, last)
            cluster.told(number, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node, port in zip(nodes[1:], bus[1:], strict=True):
            cluster.told(0, "CLUSTER", "MEET", "127.0.0.1", node.port, port)
        until(lambda: all(_knows(cluster, number) for number in range(len(nodes))), PATIENCE)
        for number in range(replicas):
            name = cluster.told(number % primaries, "CLUSTER", "MYID").decode()
            cluster.told(primaries + number, "CLUSTER", "REPLICATE", name)
        until(
            lambda: all(_knows_replicas(cluster, number, replicas) for number in range(len(nodes))), PATIENCE
        )
        until(lambda: all(map(cluster.in_step, range(min(primaries, replicas)))), PATIENCE)
        yield cluster


def _knows(cluster: RedisCluster, number: int) -> bool:
    facts: dict[str, str] = cluster.told(number, "CLUSTER INFO")
    return facts["cluster_state"] == "ok" and int(facts["cluster_known_nodes"]) == len(cluster.nodes)


def _knows_replicas(cluster: RedisCluster, number: int, replicas: int) -> bool:
    return sum(len(run) - 3 for run in cluster.told(number, "CLUSTER SLOTS")) == replicas
