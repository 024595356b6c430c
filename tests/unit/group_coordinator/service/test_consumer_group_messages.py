"""Messages of consumer groups: errors of partitions, and offsets that a transaction changes."""

from __future__ import annotations

import pytest

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_protocol.model import TopicIdPartition
from sharebroker_server.group_coordinator.core.consumer_groups.commands import Committed, GroupOffsets
from sharebroker_server.group_coordinator.service.consumer_group_messages import (
    OffsetResponses,
    code_of,
    commit_response,
    offsets_of,
)

FIRST, SECOND = TopicIdPartition("topic", 0), TopicIdPartition("topic", 1)


def test_the_offsets_of_a_commit() -> None:
    request = pb.OffsetCommitRequest()
    request.partitions.add(topic_id="topic", partition=1, committed_offset=5, committed_leader_epoch=2)
    assert offsets_of(request) == {SECOND: Committed(5, 2)}


def test_only_rejected_offsets_have_an_error() -> None:
    rejected = {SECOND: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
    response = commit_response([FIRST, SECOND], rejected)
    assert [(part.partition, part.error_code) for part in response.partitions] == [
        (0, code_of(None)),
        (1, code_of(rejected[SECOND])),
    ]


@pytest.mark.parametrize(("require_stable", "expected"), [(False, [(0, 7)]), (True, [(0, 7), (1, -1)])])
async def test_unstable_offsets_have_an_error_on_request(
    require_stable: bool, expected: list[tuple[int, int]]
) -> None:
    offsets = GroupOffsets({FIRST: Committed(7)}, frozenset({SECOND}))
    response = await OffsetResponses().response(offsets, require_stable=require_stable)
    assert [(part.partition, part.committed_offset) for part in response.partitions] == expected
    unstable = code_of(KafkaError(ErrorCode.UNSTABLE_OFFSET_COMMIT))
    assert [part.error_code == unstable for part in response.partitions] == [False, True][: len(expected)]
