"""Conversions between Kafka messages, protobuf messages and records."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as groups
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as share
from sharebroker_server.gateway.kafka.cluster_view import Broker
from sharebroker_server.gateway.kafka.convert import to_kafka, to_proto
from sharebroker_server.kafka_wire.messages import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DescribeClusterResponse,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupResponse,
    OffsetFetchResponse,
    ShareGroupHeartbeatResponse,
)

NAMES = {"partition_index": "partition"}


class Pair(NamedTuple):
    """A record with a property."""

    first: int

    @property
    def number(self) -> int:
        return self.first + 1


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
    back = to_kafka(groups.JoinGroupResponse.Member, JoinGroupResponse.JoinGroupResponseMember)
    assert back(groups.JoinGroupResponse.Member()).group_instance_id is None
    assert back(groups.JoinGroupResponse.Member(group_instance_id="i")).group_instance_id == "i"
    heartbeat = to_kafka(share.ShareGroupHeartbeatResponse, ShareGroupHeartbeatResponse)
    assert heartbeat(share.ShareGroupHeartbeatResponse()).assignment is None
    assert heartbeat(share.ShareGroupHeartbeatResponse(assignment=share.Assignment())).assignment is not None


def test_an_empty_error_message_is_null() -> None:
    convert = to_kafka(share.AlterShareGroupOffsetsResponse, AlterShareGroupOffsetsResponse, NAMES)
    assert convert(share.AlterShareGroupOffsetsResponse()).error_message is None
    assert convert(share.AlterShareGroupOffsetsResponse(error_message="no")).error_message == "no"


def test_further_fields_replace_copied_ones() -> None:
    convert = to_kafka(groups.JoinGroupResponse, JoinGroupResponse)
    made = convert(
        groups.JoinGroupResponse(leader="a", members=[groups.JoinGroupResponse.Member()]), leader="b"
    )
    assert (made.leader, len(made.members)) == ("b", 1)
    with pytest.raises(TypeError, match=r"JoinGroupResponse has no \['leeder'\]"):
        convert(groups.JoinGroupResponse(), leeder="b")
    with pytest.raises(ValueError, match="leeder"):
        to_proto(HeartbeatRequest, groups.HeartbeatRequest)(HeartbeatRequest(), leeder="b")


def test_fields_and_properties_of_records_are_copied() -> None:
    broker = to_kafka(Broker, DescribeClusterResponse.DescribeClusterBroker, {"broker_id": "node_id"})
    made = broker(Broker(1, "host", 9092), rack="r")
    assert (made.broker_id, made.host, made.port, made.rack) == (1, "host", 9092, "r")
    names = {"partition_index": "first", "port": "number"}
    pair = to_kafka(Pair, FindCoordinatorResponse.Coordinator, names)
    assert pair(Pair(3)).port == 4


def test_another_version_of_a_message_is_copied() -> None:
    topics, topic = (
        OffsetFetchResponse.OffsetFetchResponseTopics,
        OffsetFetchResponse.OffsetFetchResponseTopic,
    )
    partition = OffsetFetchResponse.OffsetFetchResponsePartitions(partition_index=2, committed_offset=7)
    made = to_kafka(topics, topic)(topics(name="t", topic_id="id", partitions=[partition]))
    (only,) = made.partitions
    assert type(only).__name__ == "OffsetFetchResponsePartition"
    assert (made.name, only.partition_index, only.committed_offset, only.metadata) == ("t", 2, 7, None)


def test_omitted_fields_keep_their_defaults() -> None:
    convert = to_kafka(groups.JoinGroupResponse, JoinGroupResponse, omit=("leader",))
    made = convert(groups.JoinGroupResponse(leader="a", member_id="m"))
    assert (made.leader, made.member_id) == ("", "m")
