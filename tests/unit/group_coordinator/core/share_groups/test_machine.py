"""Sessions: members without heartbeats are fenced; heartbeats and a new coordinator restart the timeout."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.group_coordinator.core.share_groups import machine as machine_module
from sharebroker_server.group_coordinator.core.share_groups.commands import Heartbeat
from sharebroker_server.group_coordinator.core.share_groups.group import MemberRecord
from sharebroker_server.group_coordinator.core.share_groups.machine import FIRST_EPOCH
from sharebroker_server.group_coordinator.core.share_groups.sessions import Silence
from tests.unit.group_coordinator.harness import FakeView, Harness


@pytest.fixture
def shard() -> Harness:
    cluster = FakeView()
    cluster.create("a", 2)
    return Harness(cluster)


def test_member_without_heartbeats_is_fenced(shard: Harness) -> None:
    shard.join("m", "a")
    epoch = shard.group().epoch
    shard.pass_time(44.9)
    assert shard.fenced == []
    shard.pass_time(0.1)
    assert shard.fenced == [("g", "m")]
    assert shard.group().members == {}
    assert shard.group().epoch == epoch + 1
    assert shard.refuses(Heartbeat("g", "m", epoch)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_extend_the_session(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    for _ in range(5):
        shard.pass_time(40)
        shard.beat("m", epoch)
    assert shard.fenced == []
    shard.pass_time(45)
    assert shard.fenced == [("g", "m")]


def test_rejected_heartbeat_does_not_extend_the_session(shard: Harness) -> None:
    shard.join("m", "a")
    shard.pass_time(40)
    shard.refuses(Heartbeat("g", "m", 99))
    shard.pass_time(5)
    assert shard.fenced == [("g", "m")]


def test_next_heartbeat_reassigns_partitions_of_a_fenced_member(shard: Harness) -> None:
    shard.join("m1", "a")
    epoch = shard.join("m2", "a").member_epoch
    shard.pass_time(40)
    shard.beat("m2", epoch)
    shard.pass_time(5)
    assert shard.fenced == [("g", "m1")]
    assert shard.beat("m2", epoch).assignment == {"id-a": frozenset({0, 1})}


def test_several_members_of_a_group_are_fenced_at_once(shard: Harness) -> None:
    for member in ("m1", "m2", "m3"):
        shard.join(member, "a")
    shard.pass_time(45)
    assert sorted(shard.fenced) == [("g", "m1"), ("g", "m2"), ("g", "m3")]
    assert shard.group().members == {}


def test_one_deadline_fences_a_limited_number(shard: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "DUE_PER_DEADLINE", 2)
    for member in ("m1", "m2", "m3"):
        shard.join(member, "a")
    shard.now += 45
    fenced = [shard.machine.on_deadline(shard.now) for _ in range(2)]
    assert [len(decision.records) for decision in fenced] == [4, 4]  # not accepted: the same ones are due
    shard.accept(fenced[0])
    assert len(shard.machine.on_deadline(shard.now).records) == 2


def test_member_that_left_is_not_fenced(shard: Harness) -> None:
    shard.join("m", "a")
    shard.beat("m", -1)
    shard.pass_time(100)
    assert shard.fenced == []
    assert shard.machine.next_deadline() is None


def test_new_owner_starts_full_sessions(shard: Harness) -> None:
    shard.join("m", "a")
    shard.pass_time(14)
    shard.reload()
    assert shard.machine.next_deadline() == 0.0
    shard.pass_time(0)
    shard.pass_time(44.9)
    assert shard.fenced == []
    shard.pass_time(0.1)
    assert shard.fenced == [("g", "m")]


def test_new_owner_continues_a_stored_silence(shard: Harness) -> None:
    shard.join("m", "a")
    shard.pass_time(15)
    assert shard.group().members["m"].silence == Silence(1_000_000, 15_000)
    shard.reload()
    shard.pass_time(29.9)
    assert shard.fenced == []
    shard.pass_time(0.1)
    assert shard.fenced == [("g", "m")]


def test_dead_member_is_fenced_in_time_under_frequent_restarts(shard: Harness) -> None:
    shard.join("m", "a")
    for _ in range(10):  # 50 s
        shard.now += 2
        shard.reload()
        for _ in range(6):
            shard.pass_time(0.5)
    assert shard.fenced == [("g", "m")]


def test_first_heartbeat_after_a_load_ends_the_stored_silence(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    shard.reload()
    shard.pass_time(0)
    shard.pass_time(1)
    assert shard.group().members["m"].silence == Silence(1_000_000, 1_000)
    records = shard.send(Heartbeat("g", "m", epoch, client_id="", client_host=""))
    assert [type(record) for record in records] == [MemberRecord]
    assert shard.group().members["m"].silence is None
    assert shard.send(Heartbeat("g", "m", epoch)) == ()


def test_members_that_send_heartbeats_cause_no_writes(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    shard.beat("m", epoch)
    written = len(shard.log)
    for _ in range(5):
        shard.pass_time(14.9)
        assert shard.stay("m", epoch)
    assert len(shard.log) == written


def test_stored_silence_changes_nothing_for_other_members(shard: Harness) -> None:
    shard.join("dead", "a")
    epoch = shard.join("m", "a").member_epoch
    for _ in range(5):
        shard.pass_time(5)
        shard.beat("m", epoch)
    assert shard.group().members["dead"].silence is not None
    assert shard.stay("m", epoch)


def test_live_member_survives_long_downtimes(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    for _ in range(5):
        shard.reload()
        shard.pass_time(0)
        shard.pass_time(2.4)
        shard.now += 60
    shard.reload()
    shard.pass_time(0)
    shard.beat("m", epoch)
    assert shard.fenced == []


@pytest.mark.parametrize("jump", [-300, 3600])
def test_live_member_survives_a_clock_that_differs(shard: Harness, jump: float) -> None:
    epoch = shard.join("m", "a").member_epoch
    for _ in range(3):
        shard.now += jump
        shard.reload()
        shard.pass_time(0)
        shard.pass_time(5)
        shard.beat("m", epoch)
    assert shard.fenced == []


def test_dead_member_is_fenced_in_time_by_a_clock_that_is_behind(shard: Harness) -> None:
    shard.join("m", "a")
    shard.reload()
    shard.pass_time(0)
    shard.pass_time(20)  # the chance is complete
    shard.now -= 900
    for _ in range(16):  # 48 s
        shard.reload()
        for _ in range(6):
            shard.pass_time(0.5)
    assert shard.fenced == [("g", "m")]


def test_session_timeout_is_a_group_config() -> None:
    cluster = FakeView()
    cluster.create("a", 2)
    cluster.configure("g", share_session_timeout_ms="60000")
    shard = Harness(cluster)
    shard.join("m", "a")
    shard.pass_time(59)
    assert shard.fenced == []
    shard.pass_time(1)
    assert shard.fenced == [("g", "m")]


def test_each_raised_epoch_counts_as_rebalance_but_replay_does_not(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    assert shard.rebalances == shard.group().epoch - FIRST_EPOCH
    shard.beat("m", epoch)
    shard.reload()
    shard.pass_time(0.0)
    shard.pass_time(60.0)
    assert not shard.group().members
    assert shard.group().epoch == epoch + 1
    assert shard.rebalances == epoch + 1 - FIRST_EPOCH
