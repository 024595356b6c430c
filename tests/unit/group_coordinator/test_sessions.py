"""Sessions: silent members are fenced, heartbeats keep them, a new coordinator starts them anew."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_server.group_coordinator.core import machine as machine_module
from sharebroker_server.group_coordinator.core.commands import Heartbeat
from sharebroker_server.group_coordinator.core.session_clocks import Attempts, Session, Sessions
from tests.unit.group_coordinator.world import Cluster, Shard, tp


@pytest.fixture
def shard() -> Shard:
    cluster = Cluster()
    cluster.create("a", 2)
    return Shard(cluster)


def test_silent_member_is_fenced_and_named(shard: Shard) -> None:
    shard.join("m", "a")
    epoch = shard.group().epoch
    shard.pass_time(44.9)
    assert shard.fenced == []
    shard.pass_time(0.1)
    assert shard.fenced == [("g", "m")]
    assert shard.group().members == {}
    assert shard.group().epoch == epoch + 1
    assert shard.refuses(Heartbeat("g", "m", epoch)).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member(shard: Shard) -> None:
    epoch = shard.join("m", "a").member_epoch
    for _ in range(5):
        shard.pass_time(40)
        shard.beat("m", epoch)
    assert shard.fenced == []
    shard.pass_time(45)
    assert shard.fenced == [("g", "m")]


def test_refused_heartbeat_keeps_nobody(shard: Shard) -> None:
    shard.join("m", "a")
    shard.pass_time(40)
    shard.refuses(Heartbeat("g", "m", 99))
    shard.pass_time(5)
    assert shard.fenced == [("g", "m")]


def test_partitions_of_a_fenced_member_go_to_others_with_their_next_heartbeat(shard: Shard) -> None:
    shard.join("m1", "a")
    epoch = shard.join("m2", "a").member_epoch
    shard.pass_time(40)
    shard.beat("m2", epoch)
    shard.pass_time(5)
    assert shard.fenced == [("g", "m1")]
    assert shard.beat("m2", epoch).assignment == {"id-a": frozenset({0, 1})}


def test_several_members_of_a_group_are_fenced_at_once(shard: Shard) -> None:
    for member in ("m1", "m2", "m3"):
        shard.join(member, "a")
    shard.pass_time(45)
    assert sorted(shard.fenced) == [("g", "m1"), ("g", "m2"), ("g", "m3")]
    assert shard.group().members == {}


def test_one_deadline_fences_a_limited_number(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "FENCES_A_DEADLINE", 2)
    for member in ("m1", "m2", "m3"):
        shard.join(member, "a")
    assert len(shard.machine.on_deadline(shard.now + 45)) == 4
    assert len(shard.machine.on_deadline(shard.now + 45)) == 2


def test_member_that_left_is_not_fenced(shard: Shard) -> None:
    shard.join("m", "a")
    shard.beat("m", -1)
    shard.pass_time(100)
    assert shard.fenced == []
    assert shard.machine.next_deadline() is None


def test_sessions_start_anew_with_a_new_coordinator(shard: Shard) -> None:
    shard.join("m", "a")
    shard.pass_time(40)
    shard.reload()
    assert shard.machine.next_deadline() == 0.0
    shard.pass_time(10)
    assert shard.fenced == []
    shard.pass_time(44.9)
    assert shard.fenced == []
    shard.pass_time(0.1)
    assert shard.fenced == [("g", "m")]


def test_session_timeout_is_the_groups() -> None:
    cluster = Cluster()
    cluster.create("a", 2)
    cluster.configure("g", share_session_timeout_ms="60000")
    shard = Shard(cluster)
    shard.join("m", "a")
    shard.pass_time(59)
    assert shard.fenced == []
    shard.pass_time(1)
    assert shard.fenced == [("g", "m")]


def test_deadline_that_moves_forward_counts_at_once() -> None:
    sessions, session = Sessions(), Session("g", "m")
    sessions.touch(session, 100.0)
    sessions.touch(session, 50.0)
    assert sessions.next_deadline() == 50.0
    assert sessions.due(60.0, 10) == [session]
    sessions.drop(session)
    assert sessions.due(200.0, 10) == []
    assert sessions.next_deadline() is None


def test_deadline_that_moves_back_is_looked_at_again() -> None:
    sessions, session = Sessions(), Session("g", "m")
    sessions.touch(session, 50.0)
    sessions.touch(session, 100.0)
    assert sessions.due(60.0, 10) == []
    assert sessions.next_deadline() == 100.0


def test_left_over_entries_are_skipped() -> None:
    sessions, session = Sessions(), Session("g", "m")
    for _ in range(3):
        sessions.touch(session, 50.0)
        sessions.drop(session)
    sessions.touch(session, 70.0)
    assert sessions.due(60.0, 10) == []
    assert sessions.due(70.0, 10) == [session]


def test_tracking_a_member_with_a_deadline_changes_nothing() -> None:
    sessions, session = Sessions(), Session("g", "m")
    sessions.track(session)
    assert (sessions.new(), sessions.next_deadline()) == ([session], 0.0)
    sessions.touch(session, 5.0)
    sessions.track(session)
    assert (sessions.new(), sessions.next_deadline()) == ([], 5.0)


def test_attempts_run_until_they_end_or_their_time_is_up() -> None:
    attempts = Attempts()
    attempts.begin("g", tp("t", 0, 1), 10.0)
    attempts.begin("g", tp("t", 2), 20.0)
    assert attempts.running("g", 5.0) == tp("t", 0, 1, 2)
    assert attempts.running("g", 10.0) == tp("t", 2)
    attempts.end("g", tp("t", 2))
    assert attempts.running("g", 5.0) == tp("t", 0, 1)
    attempts.end("g", tp("t", 0, 1, 7))
    attempts.end("other", tp("t", 0))
    assert attempts.running("g", 5.0) == attempts.running("other", 5.0) == set()


def test_nothing_is_remembered_of_a_change_without_partitions() -> None:
    attempts = Attempts()
    attempts.begin("g", (), 10.0)
    assert attempts._until == {}


def test_every_step_of_an_epoch_is_a_rebalance_and_a_shard_that_is_loaded_adds_none(shard: Shard) -> None:
    epoch = shard.join("m", "a").member_epoch
    assert shard.counts.rebalances == shard.group().epoch
    shard.beat("m", epoch)
    shard.reload()
    shard.pass_time(0.0)
    shard.pass_time(60.0)
    assert not shard.group().members
    assert shard.counts.rebalances == shard.group().epoch == epoch + 1
