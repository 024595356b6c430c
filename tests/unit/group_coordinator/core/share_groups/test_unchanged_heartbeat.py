"""A heartbeat that equals the last one keeps the session alive, and is recognised in one microsecond."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sharebroker_server.group_coordinator.core.share_groups.commands import AlterOffsets, StateInitialized
from tests.unit.group_coordinator.harness import FakeView, Harness, tp

EPOCH = 3
"""Of a member that joined, and has its partitions."""


@pytest.fixture
def cluster() -> FakeView:
    cluster = FakeView()
    cluster.create("a", 2)
    return cluster


@pytest.fixture
def shard(cluster: FakeView) -> Harness:
    shard = Harness(cluster)
    epoch = shard.join("m", "a").member_epoch
    assert epoch == EPOCH
    shard.beat("m", EPOCH)
    return shard


def test_unchanged_heartbeat_is_accepted(shard: Harness) -> None:
    assert shard.stay("m", EPOCH)
    assert shard.stay("m", EPOCH)


def test_unchanged_heartbeat_extends_the_session(shard: Harness) -> None:
    for _ in range(5):
        shard.pass_time(14)
        assert shard.stay("m", EPOCH)
    shard.pass_time(46)
    assert shard.fenced == [("g", "m")]
    assert not shard.stay("m", EPOCH)


def test_unchanged_heartbeat_does_not_end_a_stored_silence(shard: Harness) -> None:
    """Its decision has no record that could end it."""
    shard.pass_time(44)
    assert not shard.stay("m", EPOCH)
    shard.beat("m", EPOCH)
    shard.beat("m", EPOCH)
    assert shard.stay("m", EPOCH)


@pytest.mark.parametrize(
    ("member", "epoch", "group"), [("m", 0, "g"), ("m", 2, "g"), ("m", 4, "g"), ("n", 3, "g"), ("m", 3, "h")]
)
def test_unchanged_heartbeat_of_others_is_rejected(
    shard: Harness, member: str, epoch: int, group: str
) -> None:
    assert not shard.stay(member, epoch, group)


def test_rejected_unchanged_heartbeat_does_not_extend_the_session(shard: Harness) -> None:
    shard.pass_time(30)
    assert not shard.stay("m", 7)
    shard.pass_time(16)
    assert shard.fenced == [("g", "m")]


def test_unchanged_heartbeat_needs_a_received_assignment(cluster: FakeView) -> None:
    shard = Harness(cluster)
    shard.join("m", "a")
    assert not shard.stay("m", EPOCH)


CHANGES: dict[str, Callable[[Harness], object]] = {
    "another member": lambda shard: shard.join("n", "a"),
    "another subscription": lambda shard: shard.beat("m", EPOCH, "a", "b"),
    "a topic that grows": lambda shard: shard.cluster.grow("a", 3),
    "a deleted topic": lambda shard: shard.cluster.delete("a"),
    "a setting": lambda shard: shard.cluster.configure("g", share_heartbeat_interval_ms="6000"),
    "another owner": lambda shard: shard.reload(),
    "leaving": lambda shard: shard.beat("m", -1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_unchanged_heartbeat_is_rejected_after_a_change(
    shard: Harness, change: Callable[[Harness], object]
) -> None:
    assert shard.stay("m", EPOCH)
    change(shard)
    epoch = shard.group().members["m"].epoch if shard.group().members else EPOCH
    assert not shard.stay("m", epoch)


def test_unchanged_heartbeat_is_rejected_during_initialisation(shard: Harness) -> None:
    shard.cluster.create("b", 1)
    reply = shard.beat("m", EPOCH, "a", "b")
    assert reply.initialize is not None
    shard.join("n", "a")
    epoch = shard.beat("n", shard.group().members["n"].epoch).member_epoch
    shard.beat("n", epoch)
    assert not shard.stay("n", epoch)
    shard.send(StateInitialized("g", tp("id-b", 0)))
    for _ in range(2):
        epoch = shard.beat("n", epoch).member_epoch
    assert shard.stay("n", epoch)


def test_unchanged_heartbeat_is_rejected_while_an_assignment_is_due(
    shard: Harness, cluster: FakeView
) -> None:
    cluster.configure("g", share_assignment_interval_ms="60000")
    shard.beat("m", EPOCH)
    assert shard.stay("m", EPOCH)
    cluster.grow("a", 3)
    reply = shard.beat("m", EPOCH)
    if reply.initialize is not None:
        shard.initialize(reply)
    shard.beat("m", shard.group().members["m"].epoch)
    group = shard.group()
    assert shard.stay("m", group.members["m"].epoch) is group.converged


def test_stamp_of_an_emptied_and_changed_group_is_invalid(shard: Harness) -> None:
    shard.beat("m", -1)
    shard.send(AlterOffsets("g", {("a", 0): 5}))
    assert not shard.stay("m", EPOCH)
