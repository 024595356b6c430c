"""Heartbeats: accepted members, the returned epoch, and when an assignment is returned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    DescribeGroup,
    Heartbeat,
    HeartbeatReply,
    InitializeState,
    ListGroups,
    StateInitialized,
)
from sharebroker_server.group_coordinator.core.share_groups.group import (
    GroupRecord,
    MemberRecord,
    ShareGroup,
    StateRecord,
)
from tests.unit.group_coordinator.harness import FakeView, Harness, tp


@pytest.fixture
def cluster() -> FakeView:
    cluster = FakeView()
    cluster.create("a", 2)
    cluster.create("b", 1)
    return cluster


@pytest.fixture
def shard(cluster: FakeView) -> Harness:
    return Harness(cluster)


@pytest.mark.parametrize(
    ("beat", "code", "text"),
    [
        (Heartbeat("g", "", 0, ("a",)), ErrorCode.INVALID_REQUEST, "1 to 36"),
        (Heartbeat("g", "x" * 37, 0, ("a",)), ErrorCode.INVALID_REQUEST, "1 to 36"),
        (Heartbeat("", "m", 0, ("a",)), ErrorCode.INVALID_REQUEST, "The group id must not be empty."),
        (Heartbeat("ü" * 2**14, "m", 0, ("a",)), ErrorCode.INVALID_REQUEST, "must not exceed 32767 bytes"),
        (Heartbeat("g", "m", 0, ("a",), rack_id=""), ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (Heartbeat("g", "m", 0, ("a",), rack_id=" "), ErrorCode.INVALID_REQUEST, "RackId can't be empty."),
        (Heartbeat(" ", "m", 0, ("a",)), ErrorCode.INVALID_REQUEST, "GroupId can't be empty."),
        (Heartbeat("g", "\t ", 0, ("a",)), ErrorCode.INVALID_REQUEST, "MemberId can't be empty."),
        (Heartbeat("g", "m", 0), ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first"),
        (Heartbeat("g", "m", 0, ()), ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first"),
        (Heartbeat("g", "m", -2), ErrorCode.INVALID_REQUEST, "MemberEpoch -2"),
        (Heartbeat("g", "m", 1), ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found"),
        (Heartbeat("g", "m", -1), ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found"),
    ],
)
def test_rejected_before_a_group_exists(shard: Harness, beat: Heartbeat, code: ErrorCode, text: str) -> None:
    error = shard.refuses(beat)
    assert error.code is code
    assert text in error.message
    assert shard.machine.shares.groups == {}


@pytest.mark.parametrize("epoch", [0, 1, -1])
def test_share_groups_can_be_disabled(epoch: int) -> None:
    shard = Harness(FakeView("group.share.enable=false"))
    assert shard.refuses(Heartbeat("g", "m", epoch, ("a",))).code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("epoch", [1, -1])
def test_unknown_member_is_rejected(shard: Harness, epoch: int) -> None:
    shard.join("m", "a")
    assert shard.refuses(Heartbeat("g", "other", epoch)).code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("after", ["second", ""])
def test_earlier_stream_cannot_leave_for_a_later_one(shard: Harness, after: str) -> None:
    """A gateway reports the end late; by then the member has joined elsewhere."""
    shard.beat("m", 0, "a", stream_id="first")
    epoch = shard.beat("m", 0, "a", stream_id=after).member_epoch
    shard.beat("m", epoch, stream_id="first")  # in flight; its stream stays the earlier one
    shard.reload()
    late = Heartbeat("g", "m", -1, stream_id="first")
    assert shard.refuses(late).code is ErrorCode.UNKNOWN_MEMBER_ID
    shard.beat("m", -1, stream_id=after)
    assert shard.group().members == {}


@pytest.mark.parametrize("epoch", [0, 1, -1])
@pytest.mark.parametrize("other", ["User:bob", "User:ANONYMOUS"])
def test_only_the_principal_of_a_member_sends_its_heartbeats(shard: Harness, epoch: int, other: str) -> None:
    shard.beat("m", 0, "a", principal="User:alice")
    shard.reload()
    error = shard.refuses(Heartbeat("g", "m", epoch, ("a",), principal=other))
    assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert shard.group().members["m"].profile.principal == "User:alice"
    shard.beat("m", -1, principal="User:alice")
    assert shard.group().members == {}


def test_an_unknown_principal_is_replaced_by_the_next_one(shard: Harness) -> None:
    """A process of an earlier version sends no principal."""
    epoch = shard.beat("m", 0, "a").member_epoch
    shard.beat("m", epoch, principal="User:alice")
    shard.beat("m", epoch)
    assert shard.group().members["m"].profile.principal == "User:alice"
    assert shard.refuses(Heartbeat("g", "m", -1, principal="User:bob")).code is (
        ErrorCode.GROUP_AUTHORIZATION_FAILED
    )


def test_member_id_of_36_characters_is_legal(shard: Harness) -> None:
    assert shard.join("x" * 36, "a").member_id == "x" * 36


def test_first_heartbeat_creates_the_group_and_requests_state(shard: Harness) -> None:
    reply = shard.beat("m", 0, "a", rack_id="r", client_id="c", client_host="h")
    offsets = {TopicIdPartition("id-a", 0): -1, TopicIdPartition("id-a", 1): -1}
    assert reply == HeartbeatReply(
        "m", 2, 5000, {}, initialize=InitializeState("g", 2, offsets, {"id-a": 2}), pending=True
    )
    group = shard.group()
    assert (group.epoch, group.assignment_epoch) == (2, 2)
    profile = group.members["m"].profile
    assert (profile.rack_id, profile.client_id, profile.client_host) == ("r", "c", "h")
    assert group.topics["id-a"].initializing.keys() == {0, 1}


def test_second_heartbeat_returns_initialised_partitions(shard: Harness) -> None:
    first = shard.beat("m", 0, "a")
    shard.initialize(first)
    reply = shard.beat("m", 2)
    assert reply == HeartbeatReply("m", 3, 5000, {"id-a": frozenset({0, 1})})
    assert shard.group().topics["id-a"].initialized == {0, 1}


def test_heartbeat_during_initialisation_changes_nothing(shard: Harness) -> None:
    shard.beat("m", 0, "a")
    assert shard.beat("m", 2) == HeartbeatReply("m", 2, 5000, None, pending=True)


def test_unchanged_heartbeat_writes_nothing_and_omits_the_assignment(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    written = len(shard.log)
    assert shard.beat("m", epoch) == HeartbeatReply("m", epoch, 5000, None)
    assert len(shard.log) == written


@pytest.mark.parametrize("full", [0, 3])
def test_full_request_gets_the_unchanged_assignment(shard: Harness, full: int) -> None:
    assert shard.join("m", "a").member_epoch == 3
    written = len(shard.log)
    assert shard.beat("m", full, "a").assignment == {"id-a": frozenset({0, 1})}
    assert len(shard.log) == written


def test_previous_epoch_is_accepted_after_a_lost_response(shard: Harness) -> None:
    shard.join("m", "a")
    shard.beat("other", 0, "a")
    assert shard.beat("m", 3).member_epoch == 4
    again = shard.beat("m", 3)
    assert again.member_epoch == 4
    assert again.assignment == shard.group().members["m"].assigned, (
        "the assignment of the lost response is sent again"
    )
    assert shard.beat("m", 4).assignment is None


@pytest.mark.parametrize(("epoch", "relation"), [(2, "smaller"), (5, "greater"), (9, "greater")])
def test_any_other_epoch_is_fenced(shard: Harness, epoch: int, relation: str) -> None:
    shard.join("m", "a")
    shard.beat("other", 0, "a")
    shard.beat("m", 3)
    error = shard.refuses(Heartbeat("g", "m", epoch))
    assert error.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert relation in error.message


def test_known_member_may_join_again_at_any_time(shard: Harness) -> None:
    before = shard.join("m", "a")
    again = shard.beat("m", 0, "a")
    assert (again.member_epoch, again.assignment) == (before.member_epoch, before.assignment)
    assert list(shard.group().members) == ["m"]


def test_groups_of_a_shard_are_limited() -> None:
    cluster = FakeView("group.share.max.groups=1")
    cluster.create("a", 1)
    shard = Harness(cluster)
    shard.join("m1", "a")
    shard.join("m2", "a")
    error = shard.refuses(Heartbeat("another", "m3", 0, ("a",)))
    assert error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "1 share groups" in error.message


def test_members_of_a_group_are_limited() -> None:
    cluster = FakeView("group.share.max.size=2")
    cluster.create("a", 1)
    shard = Harness(cluster)
    shard.join("m1", "a")
    shard.join("m2", "a")
    error = shard.refuses(Heartbeat("g", "m3", 0, ("a",)))
    assert error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.beat("m2", 0, "a").member_id == "m2"


def test_leaving_raises_the_epoch_without_reassignment(shard: Harness) -> None:
    shard.join("m1", "a")
    epoch = shard.join("m2", "a").member_epoch
    assert shard.beat("m1", epoch - 1).assignment == {"id-a": frozenset({0})}
    before = shard.group().epoch
    assert shard.beat("m2", -1) == HeartbeatReply("m2", -1)
    group = shard.group()
    assert group.epoch == before + 1
    assert group.assignment_epoch == before
    assert list(group.members) == ["m1"]
    assert shard.beat("m1", epoch).assignment == {"id-a": frozenset({0, 1})}


def test_group_without_members_stays(shard: Harness) -> None:
    shard.join("m", "a")
    shard.beat("m", -1)
    assert shard.request(ListGroups(), dict) == {"g": "Empty"}
    assert shard.request(DescribeGroup("g"), ShareGroup).members == {}


def test_changed_subscription_replaces_the_old_one(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    reply = shard.beat("m", epoch, "b")
    assert reply.assignment == {}
    assert reply.member_epoch == epoch + 1
    shard.initialize(reply)
    assert shard.beat("m", epoch + 1).assignment == {"id-b": frozenset({0})}


def test_empty_subscription_is_legal_for_a_member(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    reply = shard.request(Heartbeat("g", "m", epoch, ()), HeartbeatReply)
    assert reply.assignment == {}
    assert shard.group().members["m"].profile.subscribed == frozenset()
    assert shard.group().topics["id-a"].initialized == {0, 1}


def test_order_and_repetition_of_topics_is_no_change(shard: Harness) -> None:
    epoch = shard.join("m", "a", "b").member_epoch
    assert shard.beat("m", epoch, "b", "a", "a").member_epoch == epoch


@pytest.mark.parametrize("change", [{"rack_id": "r2"}, {"client_id": "c2"}, {"client_host": "h2"}])
def test_profile_is_rewritten_without_a_new_epoch(shard: Harness, change: dict[str, str]) -> None:
    epoch = shard.join("m", "a").member_epoch
    records = shard.send(Heartbeat("g", "m", epoch, **change))  # type: ignore[arg-type]  # texts only
    assert [type(record) for record in records] == [MemberRecord]
    assert shard.group().epoch == epoch


def test_omitted_rack_is_kept(shard: Harness) -> None:
    shard.beat("m", 0, "a", rack_id="r")
    shard.beat("m", 2)
    assert shard.group().members["m"].profile.rack_id == "r"


def test_unknown_topic_yields_nothing_until_it_is_created(shard: Harness, cluster: FakeView) -> None:
    reply = shard.beat("m", 0, "late")
    assert (reply.assignment, reply.initialize, reply.pending) == ({}, None, False)
    cluster.create("late", 1)
    reply = shard.beat("m", 2)
    assert reply.member_epoch == 3
    shard.initialize(reply)
    assert shard.beat("m", 3).assignment == {"id-late": frozenset({0})}


def test_one_heartbeat_raises_the_epoch_once_for_several_reasons(shard: Harness, cluster: FakeView) -> None:
    epoch = shard.join("m", "a").member_epoch
    cluster.grow("a", 4)
    records = shard.send(Heartbeat("g", "m", epoch, ("a", "b")))
    assert [record.epoch for record in records if isinstance(record, GroupRecord)] == [epoch + 1]


def test_epoch_ignores_unsubscribed_topics(shard: Harness, cluster: FakeView) -> None:
    epoch = shard.join("m", "a").member_epoch
    cluster.grow("b", 4)
    cluster.create("c", 4)
    assert shard.beat("m", epoch).member_epoch == epoch


def test_added_partitions_of_a_known_topic_start_at_their_first_record(
    shard: Harness, cluster: FakeView
) -> None:
    epoch = shard.join("m", "a").member_epoch
    cluster.grow("a", 4)
    reply = shard.beat("m", epoch)
    assert reply.initialize == InitializeState(
        "g", epoch + 1, {TopicIdPartition("id-a", 2): 0, TopicIdPartition("id-a", 3): 0}, {"id-a": 2}
    )
    shard.initialize(reply)
    assert shard.beat("m", epoch + 1).assignment == {"id-a": frozenset(range(4))}


def test_partitions_of_a_new_topic_start_by_policy(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    reply = shard.beat("m", epoch, "a", "b")
    assert reply.initialize == InitializeState("g", epoch + 1, {TopicIdPartition("id-b", 0): -1}, {"id-b": 2})


def test_failed_initialisation_is_retried_with_the_same_offsets(shard: Harness, cluster: FakeView) -> None:
    first = shard.beat("m", 0, "a").initialize
    assert first is not None
    shard.send(StateInitialized("g", tp("id-a", 0), failed=tp("id-a", 1)))
    cluster.grow("a", 3)
    second = shard.beat("m", 2)
    assert second.assignment == {"id-a": frozenset({0})}
    assert second.initialize is not None
    assert second.initialize.start_offsets == {
        TopicIdPartition("id-a", 1): -1,
        TopicIdPartition("id-a", 2): 0,
    }
    shard.send(StateInitialized("g", frozenset(), failed=tp("id-a", 1, 2)))
    third = shard.beat("m", second.member_epoch)
    assert third.initialize is not None
    assert third.initialize.start_offsets == second.initialize.start_offsets


def test_running_initialisation_is_not_started_twice(shard: Harness) -> None:
    shard.beat("m1", 0, "a")
    reply = shard.beat("m2", 0, "a")
    assert (reply.initialize, reply.pending) == (None, True)


def test_initialisation_without_a_reply_is_repeated_after_a_timeout(shard: Harness) -> None:
    first = shard.beat("m", 0, "a")
    shard.now += 29.9
    assert shard.beat("m", 2).initialize is None
    shard.now += 0.1
    assert shard.beat("m", 2).initialize == at_epoch(3, first)


def test_interrupted_initialisation_is_repeated_at_a_higher_epoch(shard: Harness) -> None:
    first = shard.beat("m", 0, "a")
    shard.reload()
    assert shard.beat("m", 2).initialize == at_epoch(3, first)


def at_epoch(epoch: int, reply: HeartbeatReply) -> InitializeState:
    """Returns the initialisation that the reply requested, at another state epoch."""
    assert reply.initialize is not None
    return replace(reply.initialize, state_epoch=epoch)


def test_late_report_of_an_initialisation_is_ignored(shard: Harness) -> None:
    assert shard.send(StateInitialized("unknown", tp("id-a", 0))) == ()
    shard.join("m", "a")
    assert shard.send(StateInitialized("g", tp("id-a", 0) | tp("id-z", 0))) == ()


def test_topic_recreated_under_its_name_is_new(shard: Harness, cluster: FakeView) -> None:
    epoch = shard.join("m", "a", "b").member_epoch
    cluster.delete("a")
    reply = shard.beat("m", epoch)
    assert reply.assignment == {"id-b": frozenset({0})}
    assert list(shard.group().topics) == ["id-b"]
    cluster.create("a", 1, "id-a2")
    reply = shard.beat("m", epoch + 1)
    assert reply.initialize == InitializeState(
        "g", epoch + 2, {TopicIdPartition("id-a2", 0): -1}, {"id-a2": 2}
    )


def test_topic_missing_from_the_cache_is_kept(shard: Harness, cluster: FakeView) -> None:
    shard.join("m", "a", "b")
    elsewhere = Harness(FakeView())
    elsewhere.cluster.create("b", 1)
    elsewhere.log = shard.log
    elsewhere.machine = elsewhere.replayed()
    elsewhere.beat("m", 3)
    assert elsewhere.group().topics.keys() == {"id-a", "id-b"}


def test_assignment_interval_delays_the_next_assignment() -> None:
    cluster = FakeView()
    cluster.create("a", 2)
    cluster.configure("g", share_assignment_interval_ms="1000")
    shard = Harness(cluster)
    reply = shard.beat("m1", 0, "a")
    shard.initialize(reply)
    shard.now += 0.5
    waiting = shard.beat("m1", 2)
    assert (waiting.member_epoch, waiting.assignment) == (2, None)
    assert shard.group().epoch == 3
    assert shard.beat("m1", 2).member_epoch == 2
    assert shard.group().epoch == 3
    shard.now += 0.5
    assert shard.beat("m1", 2).assignment == {"id-a": frozenset({0, 1})}


def test_member_joining_between_assignments_has_no_partitions() -> None:
    cluster = FakeView()
    cluster.create("a", 2)
    cluster.configure("g", share_assignment_interval_ms="1000")
    shard = Harness(cluster)
    shard.initialize(shard.beat("m1", 0, "a"))
    shard.now += 1
    shard.beat("m1", 2)
    reply = shard.beat("m2", 0, "a")
    assert (reply.member_epoch, reply.assignment) == (3, {})
    # A narrower subscription applies at once, also between assignments.
    narrowed = shard.request(Heartbeat("g", "m1", 3, ()), HeartbeatReply)
    assert (narrowed.member_epoch, narrowed.assignment) == (3, {})
    assert shard.beat("m1", 2).member_epoch == 3


def test_heartbeat_interval_is_a_group_config() -> None:
    cluster = FakeView()
    cluster.create("a", 1)
    cluster.configure("g", share_heartbeat_interval_ms="7000")
    assert Harness(cluster).beat("m", 0, "a").heartbeat_interval_ms == 7000


def test_members_share_partitions_when_there_are_more_of_them(shard: Harness) -> None:
    for member in ("m1", "m2", "m3"):
        shard.join(member, "b")
    epoch = shard.group().epoch
    assert all(
        shard.beat(member, 0, "b").assignment == {"id-b": frozenset({0})} for member in ("m1", "m2", "m3")
    )
    assert shard.group().epoch == epoch


def test_describe_shows_the_group(shard: Harness) -> None:
    epoch = shard.join("m", "a").member_epoch
    described = shard.request(DescribeGroup("g"), ShareGroup)
    assert (described.group_id, described.state.value, described.epoch, described.assignment_epoch) == (
        "g",
        "Stable",
        epoch,
        epoch,
    )
    assert described.members["m"].assigned == {"id-a": frozenset({0, 1})}
    assert shard.refuses(DescribeGroup("x")).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert shard.refuses(DescribeGroup("")).code is ErrorCode.INVALID_GROUP_ID


def test_groups_are_listed_by_state(shard: Harness) -> None:
    shard.join("m", "a", group="g1")
    shard.join("m", "a", group="g2")
    shard.beat("m", -1, group="g2")
    assert shard.request(ListGroups(), dict) == {"g1": "Stable", "g2": "Empty"}


def test_state_record_is_written_once_for_a_joining_member(shard: Harness) -> None:
    records = shard.send(Heartbeat("g", "m", 0, ("a", "b")))
    assert sum(isinstance(record, StateRecord) for record in records) == 1
