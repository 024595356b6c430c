"""Administration: start offsets moved, topics and groups forgotten, and what may not happen together."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.commands import (
    AlterOffsets,
    AlterPlan,
    Command,
    DeleteGroup,
    DeleteOffsets,
    DeletePlan,
    DescribeGroup,
    InitializeState,
    ListGroups,
    ListOffsetPartitions,
    StateDeleted,
    StateInitialized,
)
from tests.unit.group_coordinator.world import Cluster, Shard, tp

EPOCH = 3
"""Of a group with state that one member joined, and left."""


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("a", 3)
    cluster.create("b", 1)
    return cluster


@pytest.fixture
def shard(cluster: Cluster) -> Shard:
    return Shard(cluster)


@pytest.fixture
def empty(shard: Shard) -> Shard:
    """A shard with a group that consumed topic a, and has no members now."""
    shard.join("m", "a")
    shard.beat("m", -1)
    return shard


def test_what_was_initialised_before_a_deletion_has_no_higher_epoch(empty: Shard) -> None:
    plan = altered(empty, {("a", 0): 5})
    assert empty.ask(DeleteGroup("g"), DeletePlan).state_epoch == plan.initialize.state_epoch == EPOCH + 1
    again = empty.beat("m", 0, "a")
    empty.tell(StateDeleted("g", frozenset(), failed=tp("id-a", 0, 1, 2)))
    initialize = empty.beat("m", again.member_epoch).initialize
    assert initialize is not None
    assert initialize.state_epoch > EPOCH + 1  # a deletion that comes late does not touch it


def altered(shard: Shard, offsets: dict[tuple[str, int], int]) -> AlterPlan:
    plan = shard.ask(AlterOffsets("g", offsets), AlterPlan)
    shard.tell(StateInitialized("g", frozenset(plan.initialize.start_offsets)))
    return plan


def test_a_full_shard_alters_offsets_of_the_groups_it_has_and_makes_none() -> None:
    cluster = Cluster("group.share.max.groups=1")
    cluster.create("a", 1)
    shard = Shard(cluster)
    altered(shard, {("a", 0): 5})
    altered(shard, {("a", 0): 6})
    error = shard.refuses(AlterOffsets("another", {("a", 0): 5}))
    assert error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert error.metadata["group_id"] == "another"


def test_offsets_are_altered_once_by_a_request_that_comes_twice(empty: Shard) -> None:
    """Workers that are no members may be at work again when the second one comes."""
    change = AlterOffsets("g", {("a", 0): 5}, EPOCH)
    plan = empty.ask(change, AlterPlan)
    empty.tell(StateInitialized("g", frozenset(plan.initialize.start_offsets)))
    error = empty.refuses(change)
    assert error.code is ErrorCode.FENCED_STATE_EPOCH
    assert error.metadata["group_epoch"] == str(EPOCH + 1)


@pytest.mark.parametrize("change", [DeleteOffsets("g", ("a",), EPOCH), DeleteGroup("g", EPOCH)])
def test_state_is_deleted_once_by_a_request_that_comes_twice(
    empty: Shard, change: DeleteOffsets | DeleteGroup
) -> None:
    plan = empty.ask(change, DeletePlan)
    empty.tell(StateDeleted("g", plan.partitions, with_group=isinstance(change, DeleteGroup)))
    empty.initialize(empty.beat("gateway", 0, "a"))  # what `Acquire` has done for workers
    empty.beat("gateway", -1)
    assert empty.refuses(change).code is ErrorCode.FENCED_STATE_EPOCH


def test_a_group_that_is_not_there_is_at_epoch_0(shard: Shard) -> None:
    first = AlterOffsets("new", {("a", 0): 5}, 0)
    assert shard.ask(first, AlterPlan).initialize.state_epoch == 1
    assert shard.refuses(first).code is ErrorCode.FENCED_STATE_EPOCH


ADMIN: list[Command] = [AlterOffsets("g", {("a", 0): 5}), DeleteOffsets("g", ("a",)), DeleteGroup("g")]


@pytest.mark.parametrize("command", ADMIN, ids=lambda command: type(command).__name__)
def test_group_with_members_is_not_touched(shard: Shard, command: Command) -> None:
    shard.join("m", "a")
    assert shard.refuses(command).code is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("command", ADMIN[1:], ids=lambda command: type(command).__name__)
def test_unknown_group_has_nothing_to_delete(shard: Shard, command: Command) -> None:
    assert shard.refuses(command).code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("name", ["", "x" * 32_768, "\N{EURO SIGN}" * 10_923])
@pytest.mark.parametrize("kind", [AlterOffsets, DeleteOffsets, DeleteGroup, DescribeGroup])
def test_group_id_is_never_empty_nor_too_long(shard: Shard, kind: Any, name: str) -> None:
    offsets: dict[type, tuple[object, ...]] = {AlterOffsets: ({},), DeleteOffsets: ((),)}
    command = kind(name, *offsets.get(kind, ()))
    assert shard.refuses(command).code is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("second", ADMIN, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("first", ADMIN, ids=lambda command: type(command).__name__)
def test_two_changes_of_share_state_do_not_run_together(
    empty: Shard, first: Command, second: Command
) -> None:
    empty.tell(first)
    error = empty.refuses(second)
    assert error.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert error.retriable
    empty.now += 30
    assert isinstance(empty.machine.decide(second, empty.now).reply, AlterPlan | DeletePlan)


def test_alter_moves_offsets_at_a_higher_state_epoch(empty: Shard) -> None:
    before = empty.group().epoch
    plan = altered(empty, {("a", 0): 5, ("a", 2): 0})
    offsets = {TopicIdPartition("id-a", 0): 5, TopicIdPartition("id-a", 2): 0}
    assert plan == AlterPlan(InitializeState("g", before + 1, offsets))
    assert empty.group().epoch == before + 1


def test_alter_makes_the_group(shard: Shard) -> None:
    plan = altered(shard, {("a", 1): 7})
    assert plan.initialize == InitializeState("g", 1, {TopicIdPartition("id-a", 1): 7})
    assert shard.ask(ListGroups(), dict) == {"g": "Empty"}
    assert shard.ask(ListOffsetPartitions("g"), dict) == {"id-a": frozenset({1})}


def test_alter_refuses_single_partitions(shard: Shard) -> None:
    plan = altered(shard, {("a", 0): 5, ("a", 3): 5, ("a", -1): 5, ("zzz", 0): 5, ("a", 1): -1})
    assert plan.initialize.start_offsets == {TopicIdPartition("id-a", 0): 5}
    assert {where: error.code for where, error in plan.refused.items()} == {
        ("a", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("a", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("zzz", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("a", 1): ErrorCode.INVALID_REQUEST,
    }


def test_alter_of_nothing_makes_no_group(shard: Shard) -> None:
    assert altered(shard, {("zzz", 0): 5}).initialize.start_offsets == {}
    assert shard.machine.groups == {}


def test_partitions_beside_an_altered_one_follow_the_policy_later(shard: Shard, cluster: Cluster) -> None:
    altered(shard, {("a", 1): 7})
    shard.now += 60
    cluster.grow("a", 4)
    reply = shard.beat("m", 0, "a")
    assert reply.assignment == {"id-a": frozenset({1})}
    assert reply.initialize is not None
    assert reply.initialize.start_offsets == {
        TopicIdPartition("id-a", 0): -1,
        TopicIdPartition("id-a", 2): -1,
        TopicIdPartition("id-a", 3): 0,
    }


def test_alter_that_failed_leaves_initialised_state_alone(empty: Shard) -> None:
    empty.tell(AlterOffsets("g", {("a", 0): 5}))
    empty.tell(StateInitialized("g", frozenset(), failed=tp("id-a", 0)))
    assert empty.ask(ListOffsetPartitions("g"), dict) == {"id-a": frozenset({0, 1, 2})}


def test_member_that_joins_during_an_alter_waits_for_it(shard: Shard) -> None:
    shard.tell(AlterOffsets("g", {("a", 1): 7}))
    reply = shard.beat("m", 0, "a")
    assert reply.pending
    assert reply.initialize is not None
    assert reply.initialize.start_offsets == {
        TopicIdPartition("id-a", 0): -1,
        TopicIdPartition("id-a", 2): -1,
    }


def test_altered_partition_of_a_half_deleted_topic_has_state_again(empty: Shard) -> None:
    empty.tell(DeleteOffsets("g", ("a",)))
    empty.tell(StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2)))
    altered(empty, {("a", 0): 3})
    assert empty.ask(ListOffsetPartitions("g"), dict) == {"id-a": frozenset({0})}
    assert empty.group().topics["id-a"].deleting == {1, 2}


def test_forgotten_topic_starts_as_if_never_seen(empty: Shard) -> None:
    plan = empty.ask(DeleteOffsets("g", ("a",)), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)
    assert empty.ask(ListOffsetPartitions("g"), dict) == {}
    assert empty.ask(StateDeleted("g", plan.partitions), bool) is False
    assert empty.group().topics == {}
    reply = empty.beat("m", 0, "a")
    assert reply.initialize is not None
    assert set(reply.initialize.start_offsets.values()) == {-1}


def test_topics_without_state_are_refused_alone(empty: Shard) -> None:
    plan = empty.ask(DeleteOffsets("g", ("a", "b", "zzz")), DeletePlan)
    assert plan.partitions == tp("id-a", 0, 1, 2)
    assert {name: error.message for name, error in plan.refused.items()} == {
        "b": "There is no offset information to delete.",
        "zzz": "There is no topic 'zzz'.",
    }
    assert {error.code for error in plan.refused.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_deletion_that_failed_can_be_asked_for_again(empty: Shard) -> None:
    empty.tell(DeleteOffsets("g", ("a",)))
    empty.tell(StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2)))
    plan = empty.ask(DeleteOffsets("g", ("a",)), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)


def test_member_that_comes_after_a_failed_deletion_gets_state_by_policy(empty: Shard) -> None:
    empty.tell(DeleteOffsets("g", ("a",)))
    empty.tell(StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2)))
    empty.now += 60
    reply = empty.beat("m", 0, "a")
    assert reply.initialize is not None
    assert set(reply.initialize.start_offsets.values()) == {-1}
    assert len(reply.initialize.start_offsets) == 3


def test_member_that_comes_during_a_deletion_waits_for_its_end(empty: Shard) -> None:
    plan = empty.ask(DeleteGroup("g"), DeletePlan)
    reply = empty.beat("m", 0, "a")
    assert (reply.initialize, reply.assignment) == (None, {})
    assert empty.ask(StateDeleted("g", plan.partitions, with_group=True), bool) is False
    reply = empty.beat("m", reply.member_epoch)
    assert reply.initialize is not None


def test_group_goes_when_its_state_is_gone(empty: Shard) -> None:
    plan = empty.ask(DeleteGroup("g"), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)
    assert empty.ask(ListGroups(), dict) == {"g": "Empty"}
    assert empty.ask(StateDeleted("g", plan.partitions, with_group=True), bool) is True
    assert empty.ask(ListGroups(), dict) == {}
    assert empty.ask(StateDeleted("g", plan.partitions, with_group=True), bool) is True
    assert empty.machine.trim_before() == len(empty.log)  # what is left is the floor under epochs to come


@pytest.mark.parametrize("with_group", [False, True])
def test_what_a_late_request_brings_back_after_a_deletion_does_not_stay(
    empty: Shard, *, with_group: bool
) -> None:
    """What was altered to would else be where the group begins, whatever its policy says."""
    late = altered(empty, {("a", 0): 5}).initialize
    if with_group:
        ended(empty, "g")
        empty.beat("m", 0, "nothing")  # a group without any state yet
    else:
        deletion = empty.ask(DeleteOffsets("g", ("a",)), DeletePlan)
        empty.tell(StateDeleted("g", deletion.partitions))
    empty.reload()
    begun = empty.beat("m", 0, "a").initialize
    assert begun is not None
    assert late.state_epoch < begun.since_epochs["id-a"] <= begun.state_epoch


def test_state_that_nobody_deleted_stays_when_other_state_is_deleted(empty: Shard) -> None:
    begun = empty.beat("m", 0, "b").initialize  # done, but not noted
    assert begun is not None
    empty.beat("m", -1)
    empty.now += 60
    deletion = empty.ask(DeleteOffsets("g", ("a",)), DeletePlan)
    empty.tell(StateDeleted("g", deletion.partitions))
    again = empty.beat("m", 0, "b").initialize
    assert again is not None
    assert again.since_epochs["id-b"] <= begun.state_epoch


def ended(shard: Shard, group_id: str) -> int:
    """Deletes the group; the highest epoch at which its state was changed."""
    plan = shard.ask(DeleteGroup(group_id), DeletePlan)
    shard.tell(StateDeleted(group_id, plan.partitions, with_group=True))
    return plan.state_epoch


def test_group_that_begins_anew_is_above_all_that_is_late_of_the_old_one(empty: Shard) -> None:
    empty.join("m", "a", group="young")
    empty.beat("m", -1, group="young")
    altered(empty, {("a", 0): 5})
    old = ended(empty, "g")
    assert old == EPOCH + 1
    assert ended(empty, "young") < old  # does not lower the floor
    empty.reload()
    begun = empty.beat("m", 0, "a")
    assert begun.member_epoch == old + 1
    assert begun.initialize is not None
    assert begun.initialize.state_epoch == old + 1
    plan = empty.ask(AlterOffsets("another", {("a", 0): 5}), AlterPlan)
    assert plan.initialize.state_epoch == old + 1


def test_floor_of_epochs_moves_with_a_log_that_is_trimmed(empty: Shard) -> None:
    old = ended(empty, "g")
    while empty.machine.trim_before() < 100:
        joined = empty.beat("m", 0, "zzz", group="busy")
        empty.beat("m", joined.member_epoch, "a", "zzz", group="busy")
        empty.beat("m", -1, group="busy")
    assert empty.replayed().floor == old


def test_group_stays_while_some_state_could_not_be_deleted(empty: Shard) -> None:
    empty.tell(DeleteGroup("g"))
    failed = StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2), with_group=True)
    assert empty.ask(failed, bool) is False
    plan = empty.ask(DeleteGroup("g"), DeletePlan)
    assert empty.ask(StateDeleted("g", plan.partitions, with_group=True), bool) is True


def test_group_without_state_goes_at_once(shard: Shard) -> None:
    shard.beat("m", 0, "zzz")
    shard.beat("m", -1)
    assert shard.ask(DeleteGroup("g"), DeletePlan).partitions == frozenset()
    assert shard.machine.groups == {}
    assert shard.machine.floor > 0


def test_state_of_deleted_topics_does_not_hold_a_group_back(empty: Shard, cluster: Cluster) -> None:
    cluster.delete("a")
    assert empty.ask(DeleteGroup("g"), DeletePlan) == DeletePlan(frozenset(), EPOCH)
    assert empty.machine.groups == {}


def test_deletion_of_a_topic_that_went_meanwhile_ends_well(empty: Shard, cluster: Cluster) -> None:
    plan = empty.ask(DeleteOffsets("g", ("a",)), DeletePlan)
    empty.tell(StateDeleted("g", plan.partitions))
    assert empty.tell(StateDeleted("g", plan.partitions)) == ()


def test_interrupted_deletion_is_finished_by_the_next_coordinator(empty: Shard) -> None:
    empty.tell(DeleteGroup("g"))
    empty.reload()
    plan = empty.ask(DeleteGroup("g"), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)
    assert empty.ask(StateDeleted("g", plan.partitions, with_group=True), bool) is True


def test_unknown_group_has_no_offsets(shard: Shard) -> None:
    assert shard.ask(ListOffsetPartitions("nobody"), dict) == {}
