"""Shards come and go with the leases of the process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.coordinator_runtime.host import ShardHost
from sharebroker_server.coordinator_runtime.lifecycle import ShardState
from sharebroker_server.leases.holder import LeaseHolder
from sharebroker_server.leases.port import Member
from tests.testkit.memory.leases import MemoryLeaseStore
from tests.testkit.memory.stream_log import Fault, MemoryStreamLog
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
        member = Member(f"{node}/1", node, frozenset({role}), "")
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
    assert await host.shard(2).write(Put("a", ("1",)), timeout=5) == "1"
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


async def test_stopping_closes_all(cluster: Cluster) -> None:
    host = await cluster.process(1)
    shards = list(host.held())
    await host.stop()
    assert {shard.state for shard in shards} == {ShardState.CLOSED}
    assert list(host.held()) == []


async def test_handed_over_shards_keep_their_state(cluster: Cluster) -> None:
    first = await cluster.process(1)
    await eventually(lambda: active(first))
    for index in range(4):
        await first.shard(index).write(Put("a", (str(index),)), timeout=5)
    second = await cluster.process(2)
    host, holder = cluster.processes.pop(0)
    await holder.stop()
    assert list(host.held()) == []
    await cluster.processes[0][1].reconcile()
    await eventually(lambda: len(list(second.held())) == 4 and active(second))
    for index in range(4):
        assert await second.shard(index).write(Get("a"), timeout=5) == str(index)


async def test_an_unknown_outcome_raises_the_epoch_of_the_lease(cluster: Cluster) -> None:
    host = await cluster.process(1)
    await eventually(lambda: active(host))
    resource = host.resource(0)
    assert cluster.leases.epoch_of(resource) == 1
    cluster.log.fail_next_append(Fault.DONE_UNKNOWN)
    written = await outcome(host.shard(0).write(Put("a", ("1",)), timeout=5))
    assert written is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await eventually(lambda: active(host))
    assert cluster.leases.epoch_of(resource) == 2
    assert await host.shard(0).write(Get("a"), timeout=5) == "1"
