"""Offsets by timestamp: ordinary and internal topics, and partitions that are rejected."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as pb
from sharebroker_server.gateway.kafka.call import Call
from sharebroker_server.gateway.kafka.offsets import find_offsets
from sharebroker_server.gateway.kafka.topics import locate
from sharebroker_server.rpc.errors import wire
from sharebroker_server.security.acl import AclOperation
from tests.unit.gateway.fakes import TOPIC
from tests.unit.gateway.kafka.api.harness import Harness


async def test_offsets_keep_the_order_of_the_partitions(api_harness: Harness, call: Call) -> None:
    api_harness.services.reply_each("ListOffsets", pb.ListOffsetsResponse, offset=7)
    names = ["unknown", TOPIC.name]
    located = [locate(call, AclOperation.DESCRIBE, 0, 0, name=name) for name in names]
    unknown, known = await find_offsets(call, located, lambda index: (index, -1))
    assert (unknown.error_code, known.offset) == (wire(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 7)
