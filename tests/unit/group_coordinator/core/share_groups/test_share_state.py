"""How heartbeats and the administration change the share state of a group."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.group_coordinator.core.machine import Command
from sharebroker_server.group_coordinator.core.share_groups import share_state
from sharebroker_server.group_coordinator.core.share_groups.commands import (
    AlterOffsets,
    AlterPlan,
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
from sharebroker_server.group_coordinator.core.share_groups.group import (
    GroupRecord,
    PendingGroup,
    ShareGroup,
    StateRecord,
    TopicState,
)
from tests.unit.group_coordinator.harness import FakeView, Harness, tp

TOPIC = Topic("t", "a", 3)


def pending(**topics: TopicState) -> PendingGroup:
    group = ShareGroup("g", 3)
    group.topics = dict(topics)
    return PendingGroup(group)


def initialized(*partitions: int) -> TopicState:
    return TopicState("a", 5, {}, frozenset(partitions), since_epoch=4)


def test_unchanged_topics_are_not_recorded() -> None:
    decision = pending(t=initialized(0))
    share_state.put_topics(decision, {"t": initialized(0)})
    assert decision.records == []


def test_topic_without_partitions_is_dropped() -> None:
    decision = pending(t=initialized(0), u=initialized(1))
    share_state.put_topics(decision, {"t": initialized()})
    assert decision.records == [StateRecord("g", {"u": initialized(1)})]


def test_deleted_topics_are_removed() -> None:
    view = FakeView()
    decision = pending(t=initialized(0), **{view.create("b", 1): initialized(0)})
    share_state.forget_deleted_topics(decision, view)
    assert decision.records == []
    view.delete("b")
    share_state.forget_deleted_topics(decision, view)
    assert decision.group.topics == {"t": initialized(0)}


def test_all_partitions_of_a_new_topic_are_initialised_by_policy() -> None:
    decision = pending()
    assert share_state.begin_missing(decision, [TOPIC], frozenset(), 9) == tp("t", 0, 1, 2)
    assert decision.group.topics == {"t": TopicState("a", 9, {0: 9, 1: 9, 2: 9}, since_epoch=4)}


def test_partitions_with_state_or_in_progress_are_omitted() -> None:
    decision = pending(t=initialized(0))
    assert share_state.begin_missing(decision, [TOPIC], tp("t", 1), 9) == tp("t", 2)
    assert decision.group.topics["t"].initializing == {2: 9}


@pytest.mark.parametrize(("now_ms", "since"), [(9, 9), (5, 6), (1, 6)])
def test_added_partition_is_later_than_its_topic(now_ms: int, since: int) -> None:
    decision = pending(t=initialized(0, 1))
    share_state.begin_missing(decision, [TOPIC], frozenset(), now_ms)
    assert decision.group.topics["t"].initializing == {2: since}
    assert decision.group.topics["t"].start_offset(2) == 0


def test_partition_whose_state_was_being_deleted_was_not_added() -> None:
    decision = pending(t=TopicState("a", 5, deleting=frozenset({0, 1, 2}), since_epoch=4))
    share_state.begin_missing(decision, [TOPIC], frozenset(), 9)
    state = decision.group.topics["t"]
    assert (state.initializing, state.deleting) == ({0: 5, 1: 5, 2: 5}, frozenset())


def test_restarted_initialisation_keeps_its_time() -> None:
    decision = pending(t=TopicState("a", 5, {2: 7}, frozenset({0, 1})))
    assert share_state.begin_missing(decision, [TOPIC], frozenset(), 9) == tp("t", 2)
    assert decision.group.topics["t"].initializing == {2: 7}


@pytest.mark.parametrize(("busy", "interrupted"), [((), True), ((0,), True), ((0, 1), False)])
def test_initialisation_of_unknown_outcome_is_interrupted(busy: tuple[int, ...], interrupted: bool) -> None:
    group = pending(t=TopicState("a", 5, {0: 5, 1: 5})).group
    assert share_state.interrupted(group, [TOPIC], tp("t", *busy)) is interrupted
    assert not share_state.interrupted(group, [Topic("u", "b", 1)], frozenset())


def test_only_partitions_being_initialised_become_initialised() -> None:
    decision = pending(t=TopicState("a", 5, {0: 5, 1: 5}))
    share_state.mark_initialized(decision, [*tp("t", 0), *tp("t", 2), *tp("u", 0)])
    assert decision.group.topics == {"t": TopicState("a", 5, {1: 5}, frozenset({0}))}


def test_deletion_raises_the_epoch_below_which_state_is_deleted() -> None:
    decision = pending(t=TopicState("a", 5, {0: 5}, frozenset({1})), u=initialized(0))
    assert share_state.mark_deleting(decision, ["t"]) == tp("t", 0, 1)
    assert decision.records[0] == GroupRecord("g", 3, 0, 4)
    assert decision.group.topics == {
        "t": TopicState("a", 5, deleting=frozenset({0, 1}), since_epoch=4),
        "u": initialized(0),
    }


def test_deletion_of_no_topic_changes_nothing() -> None:
    decision = pending(t=initialized(0))
    assert share_state.mark_deleting(decision, []) == frozenset()
    assert decision.records == []


def test_topic_is_removed_with_its_last_deleted_partition() -> None:
    decision = pending(t=TopicState("a", 5, deleting=frozenset({0, 1})))
    share_state.mark_deleted(decision, tp("t", 0), ())
    assert decision.group.topics["t"].deleting == {1}
    share_state.mark_deleted(decision, tp("t", 1), ())
    assert decision.group.topics == {}


def test_failed_deletion_keeps_the_topic_unchanged() -> None:
    deleting = TopicState("a", 5, deleting=frozenset({0, 1}))
    decision = pending(t=deleting, u=TopicState("b", 5, deleting=frozenset({0})))
    share_state.mark_deleted(decision, [*tp("t", 0), *tp("u", 0)], tp("t", 1))
    assert decision.group.topics == {"t": deleting}


def test_only_initialised_partitions_can_be_assigned() -> None:
    group = pending(t=TopicState("a", 5, {2: 5}, frozenset({0, 1})), u=TopicState("b", 5, {0: 5})).group
    topics = [TOPIC, Topic("u", "b", 1), Topic("v", "c", 1)]
    assert share_state.initialized(group, topics) == {"t": {0, 1}}


EPOCH = 4
"""The epoch of a group with state after one member joined and left."""


@pytest.fixture
def cluster() -> FakeView:
    cluster = FakeView()
    cluster.create("a", 3)
    cluster.create("b", 1)
    return cluster


@pytest.fixture
def shard(cluster: FakeView) -> Harness:
    return Harness(cluster)


@pytest.fixture
def empty(shard: Harness) -> Harness:
    """A shard with a group that consumed topic a, and has no members now."""
    shard.join("m", "a")
    shard.beat("m", -1)
    return shard


def test_state_initialised_before_a_deletion_has_no_higher_epoch(empty: Harness) -> None:
    plan = altered(empty, {("a", 0): 5})
    assert empty.request(DeleteGroup("g"), DeletePlan).state_epoch == plan.initialize.state_epoch == EPOCH + 1
    again = empty.beat("m", 0, "a")
    empty.send(StateDeleted("g", frozenset(), failed=tp("id-a", 0, 1, 2)))
    initialize = empty.beat("m", again.member_epoch).initialize
    assert initialize is not None
    assert initialize.state_epoch > EPOCH + 1  # a late deletion does not affect it


def altered(shard: Harness, offsets: dict[tuple[str, int], int]) -> AlterPlan:
    plan = shard.request(AlterOffsets("g", offsets), AlterPlan)
    shard.send(StateInitialized("g", frozenset(plan.initialize.start_offsets)))
    return plan


def test_full_shard_alters_existing_groups_only() -> None:
    cluster = FakeView("group.share.max.groups=1")
    cluster.create("a", 1)
    shard = Harness(cluster)
    altered(shard, {("a", 0): 5})
    altered(shard, {("a", 0): 6})
    error = shard.refuses(AlterOffsets("another", {("a", 0): 5}))
    assert error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert error.metadata["group_id"] == "another"


def test_repeated_alter_with_group_epoch_is_fenced(empty: Harness) -> None:
    """Workers without membership may already process records when the retry arrives."""
    change = AlterOffsets("g", {("a", 0): 5}, EPOCH)
    plan = empty.request(change, AlterPlan)
    empty.send(StateInitialized("g", frozenset(plan.initialize.start_offsets)))
    error = empty.refuses(change)
    assert error.code is ErrorCode.FENCED_STATE_EPOCH
    assert error.metadata["group_epoch"] == str(EPOCH + 1)


@pytest.mark.parametrize("change", [DeleteOffsets("g", ("a",), EPOCH), DeleteGroup("g", EPOCH)])
def test_repeated_delete_with_group_epoch_is_fenced(
    empty: Harness, change: DeleteOffsets | DeleteGroup
) -> None:
    plan = empty.request(change, DeletePlan)
    empty.send(StateDeleted("g", plan.partitions, with_group=isinstance(change, DeleteGroup)))
    empty.initialize(empty.beat("gateway", 0, "a"))  # what `Acquire` has done for workers
    empty.beat("gateway", -1)
    assert empty.refuses(change).code is ErrorCode.FENCED_STATE_EPOCH


def test_unknown_group_has_epoch_0(shard: Harness) -> None:
    first = AlterOffsets("new", {("a", 0): 5}, 0)
    assert shard.request(first, AlterPlan).initialize.state_epoch == 2
    assert shard.refuses(first).code is ErrorCode.FENCED_STATE_EPOCH


ADMIN: list[Command] = [AlterOffsets("g", {("a", 0): 5}), DeleteOffsets("g", ("a",)), DeleteGroup("g")]


@pytest.mark.parametrize("command", ADMIN, ids=lambda command: type(command).__name__)
def test_group_with_members_is_unchanged(shard: Harness, command: Command) -> None:
    shard.join("m", "a")
    assert shard.refuses(command).code is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize("command", ADMIN[1:], ids=lambda command: type(command).__name__)
def test_unknown_group_has_nothing_to_delete(shard: Harness, command: Command) -> None:
    assert shard.refuses(command).code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("name", ["", "x" * 32_768, "\N{EURO SIGN}" * 10_923])
@pytest.mark.parametrize("kind", [AlterOffsets, DeleteOffsets, DeleteGroup, DescribeGroup])
def test_group_id_is_never_empty_nor_too_long(shard: Harness, kind: Any, name: str) -> None:
    offsets: dict[type, tuple[object, ...]] = {AlterOffsets: ({},), DeleteOffsets: ((),)}
    command = kind(name, *offsets.get(kind, ()))
    assert shard.refuses(command).code is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("second", ADMIN, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("first", ADMIN, ids=lambda command: type(command).__name__)
def test_changes_of_share_state_do_not_overlap(empty: Harness, first: Command, second: Command) -> None:
    empty.send(first)
    error = empty.refuses(second)
    assert error.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert error.retriable
    empty.now += 30
    assert isinstance(empty.machine.decide(second, empty.now).reply, AlterPlan | DeletePlan)


def test_alter_moves_offsets_at_a_higher_state_epoch(empty: Harness) -> None:
    before = empty.group().epoch
    plan = altered(empty, {("a", 0): 5, ("a", 2): 0})
    offsets = {TopicIdPartition("id-a", 0): 5, TopicIdPartition("id-a", 2): 0}
    assert plan == AlterPlan(InitializeState("g", before + 1, offsets))
    assert empty.group().epoch == before + 1


def test_alter_creates_the_group(shard: Harness) -> None:
    plan = altered(shard, {("a", 1): 7})
    assert plan.initialize == InitializeState("g", 2, {TopicIdPartition("id-a", 1): 7})
    assert shard.request(ListGroups(), dict) == {"g": "Empty"}
    assert shard.request(ListOffsetPartitions("g"), dict) == {"id-a": frozenset({1})}


def test_alter_rejects_partitions_individually(shard: Harness) -> None:
    plan = altered(shard, {("a", 0): 5, ("a", 3): 5, ("a", -1): 5, ("zzz", 0): 5, ("a", 1): -1})
    assert plan.initialize.start_offsets == {TopicIdPartition("id-a", 0): 5}
    assert {where: error.code for where, error in plan.rejected.items()} == {
        ("a", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("a", -1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("zzz", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("a", 1): ErrorCode.INVALID_REQUEST,
    }


def test_alter_without_offsets_creates_no_group(shard: Harness) -> None:
    assert altered(shard, {("zzz", 0): 5}).initialize.start_offsets == {}
    assert shard.machine.shares.groups == {}


def test_partitions_beside_an_altered_one_follow_the_policy_later(shard: Harness, cluster: FakeView) -> None:
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


def test_failed_alter_keeps_initialised_state(empty: Harness) -> None:
    empty.send(AlterOffsets("g", {("a", 0): 5}))
    empty.send(StateInitialized("g", frozenset(), failed=tp("id-a", 0)))
    assert empty.request(ListOffsetPartitions("g"), dict) == {"id-a": frozenset({0, 1, 2})}


def test_member_that_joins_during_an_alter_waits_for_it(shard: Harness) -> None:
    shard.send(AlterOffsets("g", {("a", 1): 7}))
    reply = shard.beat("m", 0, "a")
    assert reply.pending
    assert reply.initialize is not None
    assert reply.initialize.start_offsets == {
        TopicIdPartition("id-a", 0): -1,
        TopicIdPartition("id-a", 2): -1,
    }


def test_altered_partition_of_a_half_deleted_topic_has_state_again(empty: Harness) -> None:
    empty.send(DeleteOffsets("g", ("a",)))
    empty.send(StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2)))
    altered(empty, {("a", 0): 3})
    assert empty.request(ListOffsetPartitions("g"), dict) == {"id-a": frozenset({0})}
    assert empty.group().topics["id-a"].deleting == {1, 2}


def test_deleted_topic_state_starts_by_policy(empty: Harness) -> None:
    plan = empty.request(DeleteOffsets("g", ("a",)), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)
    assert empty.request(ListOffsetPartitions("g"), dict) == {}
    assert empty.request(StateDeleted("g", plan.partitions), bool) is False
    assert empty.group().topics == {}
    reply = empty.beat("m", 0, "a")
    assert reply.initialize is not None
    assert set(reply.initialize.start_offsets.values()) == {-1}


def test_topics_without_state_are_rejected_alone(empty: Harness) -> None:
    plan = empty.request(DeleteOffsets("g", ("a", "b", "zzz")), DeletePlan)
    assert plan.partitions == tp("id-a", 0, 1, 2)
    assert {name: error.message for name, error in plan.rejected.items()} == {
        "b": "There is no offset information to delete.",
        "zzz": "There is no topic 'zzz'.",
    }
    assert {error.code for error in plan.rejected.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_failed_deletion_can_be_repeated(empty: Harness) -> None:
    empty.send(DeleteOffsets("g", ("a",)))
    empty.send(StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2)))
    plan = empty.request(DeleteOffsets("g", ("a",)), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)


def test_member_joining_after_a_failed_deletion_gets_state_by_policy(empty: Harness) -> None:
    empty.send(DeleteOffsets("g", ("a",)))
    empty.send(StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2)))
    empty.now += 60
    reply = empty.beat("m", 0, "a")
    assert reply.initialize is not None
    assert set(reply.initialize.start_offsets.values()) == {-1}
    assert len(reply.initialize.start_offsets) == 3


def test_member_joining_during_a_deletion_waits_for_its_end(empty: Harness) -> None:
    plan = empty.request(DeleteGroup("g"), DeletePlan)
    reply = empty.beat("m", 0, "a")
    assert (reply.initialize, reply.assignment) == (None, {})
    assert empty.request(StateDeleted("g", plan.partitions, with_group=True), bool) is False
    reply = empty.beat("m", reply.member_epoch)
    assert reply.initialize is not None


def test_group_is_deleted_with_its_last_state(empty: Harness) -> None:
    plan = empty.request(DeleteGroup("g"), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)
    assert empty.request(ListGroups(), dict) == {"g": "Empty"}
    assert empty.request(StateDeleted("g", plan.partitions, with_group=True), bool) is True
    assert empty.request(ListGroups(), dict) == {}
    assert empty.request(StateDeleted("g", plan.partitions, with_group=True), bool) is True
    assert empty.machine.trim_before() == len(empty.log)  # only the lower bound of future epochs remains


@pytest.mark.parametrize("with_group", [False, True])
def test_state_recreated_by_a_delayed_request_is_replaced(empty: Harness, *, with_group: bool) -> None:
    """Otherwise the altered offset would be the start of the group, whatever its reset policy."""
    late = altered(empty, {("a", 0): 5}).initialize
    if with_group:
        ended(empty, "g")
        empty.beat("m", 0, "nothing")  # a group without any state yet
    else:
        deletion = empty.request(DeleteOffsets("g", ("a",)), DeletePlan)
        empty.send(StateDeleted("g", deletion.partitions))
    empty.reload()
    begun = empty.beat("m", 0, "a").initialize
    assert begun is not None
    assert late.state_epoch < begun.since_epochs["id-a"] <= begun.state_epoch


def test_other_state_survives_a_deletion(empty: Harness) -> None:
    begun = empty.beat("m", 0, "b").initialize  # deleted, but not recorded
    assert begun is not None
    empty.beat("m", -1)
    empty.now += 60
    deletion = empty.request(DeleteOffsets("g", ("a",)), DeletePlan)
    empty.send(StateDeleted("g", deletion.partitions))
    again = empty.beat("m", 0, "b").initialize
    assert again is not None
    assert again.since_epochs["id-b"] <= begun.state_epoch


def ended(shard: Harness, group_id: str) -> int:
    """Deletes the group; the highest epoch at which its state was changed."""
    plan = shard.request(DeleteGroup(group_id), DeletePlan)
    shard.send(StateDeleted(group_id, plan.partitions, with_group=True))
    return plan.state_epoch


def test_new_group_starts_above_the_epochs_of_the_deleted_one(empty: Harness) -> None:
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
    plan = empty.request(AlterOffsets("another", {("a", 0): 5}), AlterPlan)
    assert plan.initialize.state_epoch == old + 1


def test_floor_of_epochs_moves_with_a_log_that_is_trimmed(empty: Harness) -> None:
    old = ended(empty, "g")
    while empty.machine.trim_before() < 100:
        joined = empty.beat("m", 0, "zzz", group="busy")
        empty.beat("m", joined.member_epoch, "a", "zzz", group="busy")
        empty.beat("m", -1, group="busy")
    assert empty.replayed().shares.floor == old


def test_group_stays_while_some_state_could_not_be_deleted(empty: Harness) -> None:
    empty.send(DeleteGroup("g"))
    failed = StateDeleted("g", tp("id-a", 0, 1), failed=tp("id-a", 2), with_group=True)
    assert empty.request(failed, bool) is False
    plan = empty.request(DeleteGroup("g"), DeletePlan)
    assert empty.request(StateDeleted("g", plan.partitions, with_group=True), bool) is True


def test_group_without_state_is_deleted_at_once(shard: Harness) -> None:
    shard.beat("m", 0, "zzz")
    shard.beat("m", -1)
    assert shard.request(DeleteGroup("g"), DeletePlan).partitions == frozenset()
    assert shard.machine.shares.groups == {}
    assert shard.machine.shares.floor > 0


def test_state_of_deleted_topics_does_not_prevent_group_deletion(empty: Harness, cluster: FakeView) -> None:
    cluster.delete("a")
    assert empty.request(DeleteGroup("g"), DeletePlan) == DeletePlan(frozenset(), EPOCH)
    assert empty.machine.shares.groups == {}


def test_deletion_survives_the_deletion_of_its_topic(empty: Harness, cluster: FakeView) -> None:
    plan = empty.request(DeleteOffsets("g", ("a",)), DeletePlan)
    empty.send(StateDeleted("g", plan.partitions))
    assert empty.send(StateDeleted("g", plan.partitions)) == ()


def test_interrupted_deletion_is_finished_by_the_next_coordinator(empty: Harness) -> None:
    empty.send(DeleteGroup("g"))
    empty.reload()
    plan = empty.request(DeleteGroup("g"), DeletePlan)
    assert plan == DeletePlan(tp("id-a", 0, 1, 2), EPOCH)
    assert empty.request(StateDeleted("g", plan.partitions, with_group=True), bool) is True


def test_unknown_group_has_no_offsets(shard: Harness) -> None:
    assert shard.request(ListOffsetPartitions("unknown"), dict) == {}
