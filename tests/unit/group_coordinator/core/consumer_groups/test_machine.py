"""Accepted requests of consumer groups, and the expiration of offsets."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups.commands import (
    CommitOffsets,
    Committed,
    ConsumerHeartbeat,
    DescribeConsumers,
    ForgetOffsets,
    Join,
    Leave,
    Leaver,
    MemberIdentity,
    Sync,
)
from sharebroker_server.group_coordinator.core.share_groups.commands import DeleteGroup, DeletePlan
from tests.unit.group_coordinator.consumer_harness import AT, REBALANCE, SESSION, ConsumerHarness

DAY = 24 * 3600.0


@pytest.fixture
def group() -> ConsumerHarness:
    return ConsumerHarness()


@pytest.mark.parametrize(
    "command", [ConsumerHeartbeat, lambda identity: Sync(identity, {}, 1), lambda _: Leave("none", ())]
)
def test_unknown_group_has_no_members(group: ConsumerHarness, command: object) -> None:
    assert callable(command)
    assert group.refuses(command(MemberIdentity("none", 1, "a"))).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_commit_requires_membership(group: ConsumerHarness) -> None:
    ahead = CommitOffsets(MemberIdentity("g", 3, "a"), {AT: Committed(1)})
    assert group.refuses(ahead).code is ErrorCode.GROUP_ID_NOT_FOUND
    group.commit(1)
    assert group.refuses(ahead).code is ErrorCode.UNKNOWN_MEMBER_ID
    generation = group.stable("a")
    assert group.refuses(ahead).code is ErrorCode.ILLEGAL_GENERATION
    group.join("", fresh="b")
    group.commit(1, "a", generation)  # before it joins again it commits its position
    group.join("a")
    early = CommitOffsets(MemberIdentity("g", generation + 1, "a"), {AT: Committed(2)})
    assert group.refuses(early).code is ErrorCode.REBALANCE_IN_PROGRESS
    join = Join("x", "", "x", SESSION, REBALANCE, "consumer", (("range", b""),), 1, must_be_known=True)
    group.refuses(join)
    group.send(CommitOffsets(MemberIdentity("x", -1, ""), {AT: Committed(1)}))
    assert group.committed("x") == {AT: 1}


def test_oversized_metadata_is_rejected_alone() -> None:
    group = ConsumerHarness("offset.metadata.max.bytes=4")
    other = TopicIdPartition("id-a", 1)
    kept = {AT: Committed(1, metadata="é" * 3), other: Committed(2, metadata="éé")}
    refused = group.request(CommitOffsets(MemberIdentity("g", -1, ""), kept), dict)
    assert {some: error.code for some, error in refused.items()} == {AT: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert group.committed() == {other: 2}


def test_offsets_are_deleted(group: ConsumerHarness) -> None:
    generation = group.stable("a")
    group.commit(5, "a", generation)
    forget = ForgetOffsets("g", frozenset({AT, TopicIdPartition("id-a", 3)}))
    assert group.refuses(forget).code is ErrorCode.NON_EMPTY_GROUP
    assert group.refuses(DeleteGroup("g")).code is ErrorCode.NON_EMPTY_GROUP
    group.leave(Leaver("a"))
    group.send(forget)
    assert group.committed() == {}
    assert group.refuses(forget).code is ErrorCode.GROUP_ID_NOT_FOUND
    group.commit(1)
    assert group.request(DeleteGroup("g"), DeletePlan).partitions == frozenset()
    assert group.refuses(DescribeConsumers("g")).code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.refuses(DeleteGroup("g")).code is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_group_without_members_expire(group: ConsumerHarness) -> None:
    group.commit(5)
    group.pass_time(7 * DAY - 1)
    assert group.committed() == {AT: 5}
    group.pass_time(3600)
    assert group.committed() == {}
    group.pass_time(3600)
    assert group.machine.next_deadline() is None


def test_only_offsets_of_deleted_topics_expire_early(group: ConsumerHarness) -> None:
    gone = TopicIdPartition(group.cluster.create("gone", 1), 0)
    generation = group.stable("a")
    identity = MemberIdentity("g", generation, "a")
    group.send(CommitOffsets(identity, {AT: Committed(1), gone: Committed(2)}))
    group.cluster.delete("gone")
    for _ in range(80):
        group.pass_time(SESSION - 1)
        group.stay("a", generation)
    assert group.committed() == {AT: 1}
    assert group.machine.next_deadline() is not None


def test_timeouts_and_group_sizes_are_bounded() -> None:
    group = ConsumerHarness("group.max.size=2", "group.share.max.groups=1")
    protocols = (("range", b""),)
    for timeout in (5.9, 1801.0):
        join = Join("g", "", "a", timeout, REBALANCE, "consumer", protocols, 1)
        assert group.refuses(join).code is ErrorCode.INVALID_SESSION_TIMEOUT
    group.stable("a", "b")
    third = Join("g", "", "c", SESSION, REBALANCE, "consumer", protocols, 1)
    assert group.refuses(third).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    other = Join("h", "", "c", SESSION, REBALANCE, "consumer", protocols, 1)
    assert group.refuses(other).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    commits = CommitOffsets(MemberIdentity("h", -1, ""), {AT: Committed(1)})
    assert group.refuses(commits).code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.refuses(Join("", "", "c", SESSION, REBALANCE, "consumer", protocols, 1)).code is (
        ErrorCode.INVALID_GROUP_ID
    )
