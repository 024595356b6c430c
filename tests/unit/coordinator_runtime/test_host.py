"""Shards of a process: opened and closed with its leases, selected by keys, counted in metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.host import (
    ShardHost,
    java_string_hash,
    not_active,
    shard_families,
    shard_of,
)
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import ClusterMember
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.stream_log import Fault, MemoryStreamLog
from tests.testkit.tables import each
from tests.testkit.waiting import eventually
from tests.unit.coordinator_runtime.harness import QUICK, Command, Get, Ledger, LedgerCodec, Put, outcome

Host = ShardHost[Command, str, str]


class Cluster:
    """Processes that share one store and one log."""

    def __init__(self) -> None:
        self.leases = MemoryLeaseStore()
        self.log = MemoryStreamLog(self.leases.epoch_of)
        self.processes: list[tuple[Host, LeaseHolder]] = []

    async def process(self, node: int, name: str = "share-coordinator", shards: int | None = 4) -> Host:
        role = "group-coordinator" if name == "catalog" else name
        member = ClusterMember(f"{node}/1", node, frozenset({role}), "")
        holder = LeaseHolder(self.leases, member, ttl=5.0)
        host: Host = ShardHost(name, shards, self.log, lambda _: Ledger(), LedgerCodec(), QUICK)
        await host.start(holder)
        await holder.start()
        self.processes.append((host, holder))
        return host

    async def stop(self) -> None:
        for host, holder in self.processes:
            await holder.stop()
            await host.stop()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    yield cluster
    await cluster.stop()


def active(host: Host) -> bool:
    return all(shard.state is ShardState.ACTIVE for shard in host.held())


async def test_single_process_owns_every_shard(cluster: Cluster) -> None:
    host = await cluster.process(1)
    assert [shard.shard for shard in host.held()] == [f"share-coordinator:{n}" for n in range(4)]
    assert host.indices() == [0, 1, 2, 3]
    await eventually(lambda: active(host))
    assert await host.shard(2).submit(Put("a", ("1",))) == "1"
    assert cluster.log.appends == [("share-coordinator:2", 1, 1)]


async def test_shard_of_another_process_is_rejected(cluster: Cluster) -> None:
    host = await cluster.process(1)
    with pytest.raises(KafkaError) as refused:
        host.shard(4)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_a_single_shard_has_no_number(cluster: Cluster) -> None:
    host = await cluster.process(1, "catalog", None)
    assert host.resource(0) == "catalog"
    assert [shard.shard for shard in host.held()] == ["catalog"]


async def test_stop_closes_all_shards(cluster: Cluster) -> None:
    host = await cluster.process(1)
    shards = list(host.held())
    await host.stop()
    assert {shard.state for shard in shards} == {ShardState.CLOSED}
    assert list(host.held()) == []


async def test_handed_over_shards_keep_their_state(cluster: Cluster) -> None:
    first = await cluster.process(1)
    await eventually(lambda: active(first))
    for index in range(4):
        await first.shard(index).submit(Put("a", (str(index),)))
    second = await cluster.process(2)
    host, holder = cluster.processes.pop(0)
    await holder.stop()
    assert list(host.held()) == []
    await cluster.processes[0][1].reconcile()
    await eventually(lambda: len(list(second.held())) == 4 and active(second))
    for index in range(4):
        assert await second.shard(index).submit(Get("a")) == str(index)


async def test_an_unknown_outcome_raises_the_epoch_of_the_lease(cluster: Cluster) -> None:
    host = await cluster.process(1)
    await eventually(lambda: active(host))
    resource = host.resource(0)
    assert cluster.leases.epoch_of(resource) == 1
    cluster.log.fail_next_append(Fault.DONE_UNKNOWN)
    written = await outcome(host.shard(0).submit(Put("a", ("1",))))
    assert written is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await eventually(lambda: active(host))
    assert cluster.leases.epoch_of(resource) == 2
    assert await host.shard(0).submit(Get("a")) == "1"


@each(
    "text, hashed",
    [
        ("", 0),
        ("a", 97),
        ("ab", 3105),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("polygenelubricants", -(2**31)),
        ("é", 233),
        ("\u20ac", 8364),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
        ("\ud800", 0xD800),
    ],
)
def test_hash_equals_javas(text: str, hashed: int) -> None:
    assert java_string_hash(text) == hashed


@pytest.mark.parametrize(
    ("text", "shards", "shard"),
    [("", 50, 0), ("polygenelubricants", 50, 0), ("hello", 50, 22), ("hello", 1, 0)],
)
def test_key_maps_to_kafkas_shard(text: str, shards: int, shard: int) -> None:
    assert shard_of(text, shards) == shard


def test_absolute_value_of_the_smallest_hash_is_0() -> None:
    assert shard_of("polygenelubricants", 7) == 0  # 2**31 % 7 would be 2


class OwnedShards:
    name = "share-coordinator"

    def held(self) -> Iterator[Any]:
        trimming = SimpleNamespace(before=8)
        for index, state in enumerate([ShardState.ACTIVE, ShardState.LOADING, ShardState.ACTIVE]):
            yield SimpleNamespace(shard=f"share-coordinator:{index}", state=state, trimming=trimming)


def test_shards_are_counted_by_state() -> None:
    states, pruned = shard_families([OwnedShards()])  # type: ignore[list-item]  # all that is read
    values = {sample.labels[-1]: sample.value for sample in states.samples if sample.value}
    assert values == {"active": 2, "loading": 1}
    assert [sample.value for sample in pruned.samples] == [7, 7, 7]


def test_shards_that_accept_no_commands_are_listed() -> None:
    assert not_active([OwnedShards()]) == ["share-coordinator:1"]  # type: ignore[list-item]  # as above
