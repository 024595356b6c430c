"""Messages of the group coordinator, and the values of its core."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as pb
from sharebroker_server.group_coordinator.core.share_groups.commands import Heartbeat, HeartbeatReply
from sharebroker_server.group_coordinator.core.share_groups.group import (
    Assignment,
    Member,
    Profile,
    ShareGroup,
)
from sharebroker_server.group_coordinator.service import servicer, share_groups
from tests.unit.group_coordinator.harness import FakeView


def test_absent_fields_of_a_heartbeat_are_unchanged() -> None:
    request = pb.ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=3)
    assert share_groups.HEARTBEAT.value(request) == Heartbeat("g", "m", 3)


def test_empty_fields_of_a_heartbeat_are_values() -> None:
    request = pb.ShareGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        subscribed_topic_names=pb.TopicNames(),
        rack_id="",
        client_id="c",
        client_host="h",
        stream_id="s",
    )
    assert share_groups.HEARTBEAT.value(request) == Heartbeat("g", "m", 0, (), "", "c", "h", "s")


@pytest.mark.parametrize(
    ("assignment", "partitions"),
    [
        ({"u": frozenset({1}), "t": frozenset({7, 0})}, [("t", [0, 7]), ("u", [1])]),
        ({}, []),
    ],
)
def test_assignment_is_sorted(assignment: Assignment, partitions: list[tuple[str, list[int]]]) -> None:
    response = share_groups.HEARTBEAT_REPLY.message(HeartbeatReply("m", 3, 5000, assignment))
    assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("m", 3, 5000)
    assert response.HasField("assignment")
    found = response.assignment.topic_partitions
    assert [(topic.topic_id, list(topic.partitions)) for topic in found] == partitions


def test_unchanged_assignment_is_absent() -> None:
    assert not share_groups.HEARTBEAT_REPLY.message(HeartbeatReply("m", 3)).HasField("assignment")


def test_description_leaves_out_deleted_topics() -> None:
    view = FakeView()
    topic_id = view.create("a", 2)
    member = Member(
        Profile("r", "c", "h", frozenset({"b", "a"})),
        epoch=4,
        assigned={topic_id: frozenset({1}), "deleted": frozenset({0})},
    )
    described = share_groups.described(ShareGroup("g", 5, assignment_epoch=4, members={"m": member}), view)
    assert (described.group_id, described.group_state, described.assignor_name) == ("g", "Stable", "simple")
    assert (described.group_epoch, described.assignment_epoch) == (5, 4)
    assert described.authorized_operations == share_groups.NO_OPERATIONS
    (shown,) = described.members
    assert (shown.member_id, shown.rack_id, shown.member_epoch) == ("m", "r", 4)
    assert list(shown.subscribed_topic_names) == ["a", "b"]
    (assigned,) = shown.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, list(assigned.partitions)) == (topic_id, "a", [1])


def test_error_replaces_the_description() -> None:
    error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    described = share_groups.not_described("g", error)
    assert described.group_id == "g"
    assert (described.error_code, described.error_message) == (69, "Group g not found.")
    assert described.authorized_operations == share_groups.NO_OPERATIONS


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], ["a", "b", "c"]),
        (["stable"], [], ["a", "b"]),
        (["EMPTY"], [], ["c"]),
        ([], ["Share"], ["b", "c"]),
        ([], ["classic"], ["a"]),
        (["Stable"], ["share"], ["b"]),
        (["Dead"], [], []),
    ],
)
def test_groups_are_listed_by_state_and_type(states: list[str], types: list[str], found: list[str]) -> None:
    request = pb.ListGroupsRequest(states_filter=states, types_filter=types)
    shared, consumers = {"c": "Empty", "b": "Stable"}, {"a": ("Stable", "consumer")}
    listed = servicer.listed(shared, consumers, request)
    assert [group.group_id for group in listed] == found


def test_listed_groups_have_the_names_of_kafka() -> None:
    listed = servicer.listed({"b": "Empty"}, {"a": ("Stable", "connect")}, pb.ListGroupsRequest())
    assert [(group.protocol_type, group.group_type) for group in listed] == [
        ("connect", "classic"),
        ("share", "share"),
    ]
