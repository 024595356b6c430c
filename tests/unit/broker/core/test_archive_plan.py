"""What an import writes about groups and share state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_plan import GroupsByShard, ImportPlan, new_notes, plan_import
from sharebroker_server.broker.core.archive_selection import ArchiveRecord, Selection
from sharebroker_server.broker.core.archive_topics import Choices, TargetCluster
from sharebroker_server.catalog.records import TopicRecord
from sharebroker_server.group_coordinator.core.share_groups.group import (
    FloorRecord,
    GroupRecord,
    MemberRecord,
    Profile,
    StateRecord,
)
from tests.unit.broker.core.archives import (
    BILLS,
    CONFIG,
    ORDERS,
    SETTING,
    TOPICS,
    catalog,
    committed,
    groups,
    share_group,
    state,
)

ARCHIVED: list[ArchiveRecord] = [
    *TOPICS,  # type: ignore[list-item]
    SETTING,
    *share_group("g", topics=(ORDERS, BILLS)),  # type: ignore[list-item]
    state(),
    state(topic=BILLS),
    committed(),
]


def planned(
    choices: Choices | None = None, there: GroupsByShard | None = None, topics: tuple[TopicRecord, ...] = ()
) -> ImportPlan:
    target = TargetCluster(catalog(*topics), CONFIG, 5.0)
    return plan_import("an archive", ARCHIVED, choices or Choices(), target, there or groups())


def test_an_empty_cluster_gets_the_same_groups_and_states() -> None:
    plan = planned()
    assert plan.groups == [*share_group("g", topics=(ORDERS, BILLS)), committed()]
    assert plan.states == [each._replace(checkpoint_epoch=0) for each in (state(), state(topic=BILLS))]
    assert plan.group_ids == {"g", "c"}


def test_state_of_a_topic_that_is_left_out_is_left_out() -> None:
    plan = planned(Choices(Selection(["bills"])))
    assert plan.groups == share_group("g", topics=(BILLS,))
    assert [each.key.topic_id for each in plan.states] == [BILLS.topic_id]
    plan = planned(Choices(Selection(["bills"], ["c"])))
    assert (plan.groups, plan.states) == ([], [])


def test_state_follows_a_topic_to_its_new_id_and_name() -> None:
    choices = Choices(Selection(["orders"]), {"orders": "copy"})
    plan = planned(choices, topics=(TopicRecord(ORDERS),))
    topic = plan.topics[ORDERS.topic_id]
    assert {each.key.topic_id for each in plan.states} == {topic.topic_id} != {ORDERS.topic_id}
    (known,) = [record.topics for record in plan.groups if isinstance(record, StateRecord)]
    assert [(topic_id, each.name) for topic_id, each in known.items()] == [(topic.topic_id, "copy")]


def test_an_existing_group_keeps_its_topics_and_the_higher_epoch() -> None:
    other = replace(BILLS, topic_id="others" + "A" * 16, name="others")
    there = groups(*share_group("g", epoch=9, topics=(other,)))
    record, topics, *_ = planned(there=there).groups
    assert record == GroupRecord("g", 9, 9, 2)
    assert isinstance(topics, StateRecord)
    assert topics.topics.keys() == {other.topic_id, ORDERS.topic_id, BILLS.topic_id}


def test_members_of_an_existing_group_get_a_new_assignment() -> None:
    member = MemberRecord("g", "m", Profile(None, "", "", frozenset()))
    there = groups(*share_group("g", epoch=9), member)
    assert planned(there=there).groups[0] == GroupRecord("g", 10, 9, 2)


def test_a_repeated_import_plans_the_same() -> None:
    first = planned()
    assert planned(there=groups(*first.groups)).groups[0] == share_group("g")[0]


def test_a_plan_for_other_topics_than_an_earlier_one_is_rejected() -> None:
    plan = planned()
    planned().check_topics_of(plan)
    # The cluster has a topic with the id of another one by now.
    changed = planned(topics=(TopicRecord(replace(ORDERS, name="others")),))
    with pytest.raises(ArchiveError, match="topics of the cluster changed"):
        changed.check_topics_of(plan)


def test_a_group_starts_above_the_groups_that_were_deleted() -> None:
    assert planned(there=groups(FloorRecord(30))).groups[0] == GroupRecord("g", 31, 9, 31)


def test_a_group_of_another_kind_is_rejected() -> None:
    with pytest.raises(ArchiveError, match="g is a share group in the archive, and a consumer group here"):
        planned(there=groups(committed("g")))
    with pytest.raises(ArchiveError, match="c is a consumer group in the archive, and a share group here"):
        planned(there=groups(*share_group("c")))


def test_patterns_without_a_match_are_rejected() -> None:
    with pytest.raises(ArchiveError, match="The archive has no topic or group 'x', 'y'"):
        planned(Choices(Selection(["x"], ["y"])))


def test_notes_of_dead_letters_name_the_new_id_of_their_source() -> None:
    topics = {ORDERS.topic_id: BILLS}
    notes = {f"ndlq:g\0{ORDERS.topic_id}\x000\x004": b"1", "ndlq:g\0other\x000\x004": b"2", "nto:5": b"3"}
    assert new_notes(notes, topics) == {
        f"ndlq:g\0{BILLS.topic_id}\x000\x004": b"1",
        "ndlq:g\0other\x000\x004": b"2",
        "nto:5": b"3",
    }
