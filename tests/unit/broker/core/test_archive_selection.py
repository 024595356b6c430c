"""What an export contains of a cluster's state."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sharebroker_server.broker.core.archive_contents import ArchiveError
from sharebroker_server.broker.core.archive_selection import (
    ArchiveRecord,
    Selection,
    archive_records,
    group_ids,
    select_topics,
)
from sharebroker_server.catalog.records import ConfigRecord, TopicRecord
from sharebroker_server.catalog.topics import ConfigResource, ResourceType
from sharebroker_server.group_coordinator.core.share_groups.group import (
    GroupRecord,
    MemberRecord,
    Profile,
    StateRecord,
    TopicState,
)
from sharebroker_server.share_coordinator.core.state import ShareCheckpoint
from tests.unit.broker.core.archives import (
    BILLS,
    GROUP,
    ORDERS,
    SETTING,
    TOPICS,
    catalog,
    committed,
    machine,
    share_group,
    state,
)

MEMBER = MemberRecord("g", "m", Profile(None, "", "", frozenset({"orders"})))


def selected(
    selection: Selection, *groups: object, states: tuple[ShareCheckpoint, ...] = ()
) -> list[ArchiveRecord]:
    broker = ConfigRecord(ConfigResource(ResourceType.BROKER, ""), "num.partitions", "3")
    shard = machine(groups)  # type: ignore[arg-type]  # the records of a shard
    return list(archive_records(catalog(*TOPICS, SETTING, broker), [shard], states, selection))


def test_a_group_is_exported_without_its_members() -> None:
    found = selected(Selection(), *share_group(), MEMBER, states=(state(), state(partition=1)))
    _, topics = share_group()
    assert found == [
        TopicRecord(BILLS),
        TopicRecord(ORDERS),
        SETTING,
        GroupRecord("g", 6, 0, 2),
        topics,
        state(),
        state(partition=1),
    ]


def test_a_partition_without_state_is_initialised_in_the_target() -> None:
    found = selected(Selection(), *share_group(), states=(state(partition=1),))
    (topics,) = [record.topics for record in found if isinstance(record, StateRecord)]
    assert topics == {ORDERS.topic_id: TopicState("orders", 50, {0: 50}, frozenset({1}), since_epoch=2)}


def test_state_that_is_being_deleted_is_left_out() -> None:
    deleting = TopicState("orders", 50, deleting=frozenset({0, 1}))
    records = [GroupRecord("g", 6), StateRecord("g", {ORDERS.topic_id: deleting})]
    assert group_ids(selected(Selection(), *records, states=(state(), state(partition=1)))) == set()


@pytest.mark.parametrize(
    ("selection", "topics", "groups"),
    [
        (Selection(), ["bills", "orders"], {"g", "h", "c"}),
        (Selection(["orders"]), ["orders"], {"g", "c"}),
        (Selection(["b*"]), ["bills"], {"h"}),
        (Selection((), ["g"]), ["bills", "orders"], {"g"}),
        (Selection(["bills"], ["g"]), ["bills"], set()),
        (Selection(["x", "?ills"]), ["bills"], {"h"}),
    ],
)
def test_patterns_select_topics_and_groups(selection: Selection, topics: list[str], groups: set[str]) -> None:
    records = [*share_group("g"), *share_group("h", topics=(BILLS,)), committed()]
    states = (state(), state(partition=1), state("h", BILLS))
    found = selected(selection, *records, states=states)
    assert [record.topic.name for record in found if isinstance(record, TopicRecord)] == topics
    assert group_ids(found) == groups
    assert [topic.name for topic in select_topics(catalog(*TOPICS), selection)] == topics
    assert any(isinstance(record, ConfigRecord) for record in found) is selection.has_group(GROUP.name)


def test_patterns_without_a_match_are_named() -> None:
    assert Selection(["orders", "x*"], ["y"]).unmatched(["orders"], ["g"]) == ["x*", "y"]


def test_topics_with_share_state_in_their_logs_are_refused() -> None:
    in_log = replace(BILLS, configs={"share.state.storage": "log"})
    there = catalog(TopicRecord(in_log), TopicRecord(ORDERS))
    with pytest.raises(ArchiveError, match=re.escape("bills: with share.state.storage=log")):
        list(archive_records(there, [], [], Selection()))
    assert list(archive_records(there, [], [], Selection(["orders"]))) == [TopicRecord(ORDERS)]
