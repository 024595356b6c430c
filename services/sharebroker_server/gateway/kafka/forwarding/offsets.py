"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch: the leaders know the offsets of their logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.api import delete_records, list_offsets, offset_for_leader_epoch
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.forwarding.core.splitting import Shape, replaced
from sharebroker_server.gateway.kafka.forwarding.partitions import LeaderApi
from sharebroker_server.kafka_client.cluster import CONSUMER
from sharebroker_server.kafka_wire.messages import (
    DeleteRecordsResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from sharebroker_server.kafka_wire.schema import Message
from sharebroker_server.security.acl import AclOperation


def as_client(request: Any) -> Any:
    """Returns a request that no follower sent: it is authorized by this broker's own identity."""
    return replaced(request, replica_id=CONSUMER)


def _failed(api: Api, path: str) -> Callable[[Call[Any], Any, ErrorCode], Message]:
    """Returns a function that makes the result of a partition with an error, as `api` refuses it."""
    refusal = cast("Refusal[Any]", api.refuse)
    return lambda _, part, code: refusal.item(path, part, KafkaError(code))


LIST_OFFSETS: Final = LeaderApi(
    list_offsets.API,
    Shape(ListOffsetsResponse.ListOffsetsTopicResponse),
    ListOffsetsResponse,
    AclOperation.DESCRIBE,
    _failed(list_offsets.API, "topics.partitions"),
    as_client,
)
DELETE_RECORDS: Final = LeaderApi(
    delete_records.API,
    Shape(DeleteRecordsResponse.DeleteRecordsTopicResult),
    DeleteRecordsResponse,
    AclOperation.DELETE,
    _failed(delete_records.API, "topics.partitions"),
)
OFFSET_FOR_LEADER_EPOCH: Final = LeaderApi(
    offset_for_leader_epoch.API,
    Shape(
        OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult,
        index="partition",
        name="topic",
        result_index="partition",
        result_name="topic",
    ),
    OffsetForLeaderEpochResponse,
    AclOperation.DESCRIBE,
    _failed(offset_for_leader_epoch.API, "topics.partitions"),
    as_client,
)
