"""Conversions between Kafka messages and protobuf messages."""

from __future__ import annotations

import pytest

from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as groups
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as share
from sharebroker_server.gateway.kafka.convert import from_proto, to_proto
from sharebroker_server.kafka_wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    HeartbeatRequest,
    JoinGroupResponse,
    ShareGroupHeartbeatResponse,
)

NAMES = {"partition_index": "partition"}


def test_renames_hold_at_every_depth() -> None:
    partition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
    topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(
        topic_name="t", partitions=[partition(partition_index=3, start_offset=70)]
    )
    convert = to_proto(AlterShareGroupOffsetsRequest, share.AlterShareGroupOffsetsRequest, NAMES)
    made = convert(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]))
    assert made == share.AlterShareGroupOffsetsRequest(
        group_id="g",
        topics=[
            share.AlterShareGroupOffsetsRequest.Topic(
                topic_name="t",
                partitions=[share.AlterShareGroupOffsetsRequest.Partition(partition=3, start_offset=70)],
            )
        ],
    )


def test_null_is_an_unset_field_and_back() -> None:
    convert = to_proto(HeartbeatRequest, groups.HeartbeatRequest)
    assert not convert(HeartbeatRequest(group_id="g")).HasField("group_instance_id")
    assert convert(HeartbeatRequest(group_instance_id="")).HasField("group_instance_id")
    back = from_proto(groups.JoinGroupResponse.Member, JoinGroupResponse.JoinGroupResponseMember)
    assert back(groups.JoinGroupResponse.Member()).group_instance_id is None
    assert back(groups.JoinGroupResponse.Member(group_instance_id="i")).group_instance_id == "i"
    heartbeat = from_proto(share.ShareGroupHeartbeatResponse, ShareGroupHeartbeatResponse)
    assert heartbeat(share.ShareGroupHeartbeatResponse()).assignment is None
    assert heartbeat(share.ShareGroupHeartbeatResponse(assignment=share.Assignment())).assignment is not None


def test_an_empty_error_message_is_null() -> None:
    convert = from_proto(share.AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponse, NAMES)
    assert convert(share.AlterShareGroupOffsetsResponse()).error_message is None
    assert convert(share.AlterShareGroupOffsetsResponse(error_message="no")).error_message == "no"


def test_further_fields_replace_copied_ones() -> None:
    convert = from_proto(groups.JoinGroupResponse, JoinGroupResponse)
    made = convert(
        groups.JoinGroupResponse(leader="a", members=[groups.JoinGroupResponse.Member()]), leader="b"
    )
    assert (made.leader, len(made.members)) == ("b", 1)
    with pytest.raises(TypeError, match=r"JoinGroupResponse has no \['leeder'\]"):
        convert(groups.JoinGroupResponse(), leeder="b")
    with pytest.raises(ValueError, match="leeder"):
        to_proto(HeartbeatRequest, groups.HeartbeatRequest)(HeartbeatRequest(), leeder="b")
