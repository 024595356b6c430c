"""Share-partitions with state, and their rows."""

from __future__ import annotations

from typing import Any

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_server.rpc.errors import wire
from sharebroker_spark.core.options import StateOptions
from sharebroker_spark.core.state_rows import StateRowKey, unreadable
from sharebroker_spark.state_reading import read_state, share_partitions
from tests.unit.spark.fake_client import FakeClient

STATE = {"g": {"orders": 2, "audit": 1}, "h": {"orders": 1}, "empty": {}}
Response = groups.DescribeShareGroupOffsetsResponse


def listed(request: groups.ListGroupsRequest) -> groups.ListGroupsResponse:
    assert list(request.types_filter) == ["share"]
    response = groups.ListGroupsResponse()
    for group_id in STATE:
        response.groups.add(group_id=group_id)
    return response


def described(request: groups.DescribeShareGroupOffsetsRequest) -> Response:
    response = Response()
    for requested in request.groups:
        group = response.groups.add(group_id=requested.group_id)
        for name, partitions in STATE.get(requested.group_id, {}).items():
            topic = group.topics.add(topic_name=name, topic_id=name.upper())
            for partition in range(partitions):
                topic.partitions.add(partition=partition)
    return response


def client(**responses: Any) -> FakeClient:
    return FakeClient(**{"ListGroups": listed, "DescribeShareGroupOffsets": described, **responses})


def found(
    fake: FakeClient, *, of: tuple[str, ...] = (), topics: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    options = StateOptions("h:1", of, topics)
    return [(each.group, each.topic, str(each.partition)) for each in share_partitions(fake.client, options)]


def test_all_groups_are_read_by_default_in_order() -> None:
    expected = [("g", "audit", "0"), ("g", "orders", "0"), ("g", "orders", "1"), ("h", "orders", "0")]
    assert found(client()) == expected


def test_groups_and_topics_can_be_selected() -> None:
    assert found(client(), of=("g",), topics=("audit", "other")) == [("g", "audit", "0")]


def test_a_group_without_state_has_no_rows() -> None:
    assert found(client(), of=("empty",)) == []


def test_a_requested_group_must_exist() -> None:
    with pytest.raises(KafkaError, match="Share group 'absent' does not exist") as caught:
        found(client(), of=("g", "absent"))
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("code", "of", "is_error"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, (), False),
        (ErrorCode.GROUP_ID_NOT_FOUND, ("h",), True),
        (ErrorCode.NOT_COORDINATOR, (), True),
    ],
)
def test_a_deleted_group_is_an_error_only_if_requested(
    code: ErrorCode, of: tuple[str, ...], is_error: bool
) -> None:
    def deleted(request: groups.DescribeShareGroupOffsetsRequest) -> Response:
        response = described(request)
        group = next(group for group in response.groups if group.group_id == "h")
        group.error_code, group.error_message = wire(code), "failed"
        return response

    fake = client(DescribeShareGroupOffsets=deleted)
    if not is_error:
        assert {group for group, *_ in found(fake, of=of)} == {"g"}
        return
    with pytest.raises(KafkaError, match="failed") as caught:
        found(fake, of=of)
    assert caught.value.code is code


def test_a_corrupt_log_is_a_row_and_other_errors_end_the_query() -> None:
    partition = StateRowKey("g", "orders", "ORDERS", 0)
    error = KafkaError(ErrorCode.CORRUPT_MESSAGE)

    def failing(request: state.InspectShareGroupStateRequest) -> object:
        assert (request.group_id, request.topic_id, request.partition) == ("g", "ORDERS", 0)
        raise error

    fake = client(InspectShareGroupState=failing)
    assert list(read_state(fake.client, [partition])) == [unreadable(partition)]
    error = KafkaError(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(KafkaError) as caught:
        list(read_state(fake.client, [partition]))
    assert caught.value is error
