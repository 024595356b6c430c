"""How decisions change the partitions of a share group that have share state."""

from __future__ import annotations

import pytest

from sharebroker_server.catalog.records import Topic
from sharebroker_server.group_coordinator.core.records import GroupRecord, StateRecord
from sharebroker_server.group_coordinator.core.share_groups import share_state
from sharebroker_server.group_coordinator.core.share_groups.model import ShareGroup, TopicState
from sharebroker_server.group_coordinator.core.share_groups.pending_group import PendingGroup
from tests.unit.group_coordinator.harness import FakeView, tp

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


def test_deleted_topics_are_forgotten() -> None:
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


def test_partitions_with_state_and_busy_ones_are_left_out() -> None:
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


def test_topic_goes_with_its_last_deleted_partition() -> None:
    decision = pending(t=TopicState("a", 5, deleting=frozenset({0, 1})))
    share_state.mark_deleted(decision, tp("t", 0), ())
    assert decision.group.topics["t"].deleting == {1}
    share_state.mark_deleted(decision, tp("t", 1), ())
    assert decision.group.topics == {}


def test_topic_with_a_failed_deletion_stays_as_it_is() -> None:
    deleting = TopicState("a", 5, deleting=frozenset({0, 1}))
    decision = pending(t=deleting, u=TopicState("b", 5, deleting=frozenset({0})))
    share_state.mark_deleted(decision, [*tp("t", 0), *tp("u", 0)], tp("t", 1))
    assert decision.group.topics == {"t": deleting}


def test_only_initialised_partitions_can_be_assigned() -> None:
    group = pending(t=TopicState("a", 5, {2: 5}, frozenset({0, 1})), u=TopicState("b", 5, {0: 5})).group
    topics = [TOPIC, Topic("u", "b", 1), Topic("v", "c", 1)]
    assert share_state.initialized(group, topics) == {"t": {0, 1}}
