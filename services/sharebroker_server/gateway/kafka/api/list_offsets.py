"""ListOffsets (2): the first and the last offsets of partitions, and offsets by timestamp."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.convert import to_kafka
from sharebroker_server.gateway.kafka.offsets import Offset, find_offsets
from sharebroker_server.gateway.kafka.topics import Located, Rejected, by_topic, locate
from sharebroker_server.kafka_wire.messages import ListOffsetsRequest, ListOffsetsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
_EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING_UPLOAD = -4, -5, -6
_FIRST_VERSIONS: Final[Mapping[int, int]] = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
"""Special timestamps, and the first version of each."""

_TIERED: Final = frozenset({_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD})
"""Timestamps without an offset on a broker without tiered storage; an unknown partition is still an error."""

_EQUIVALENT: Final[Mapping[int, int]] = {_EARLIEST_LOCAL: _EARLIEST} | dict.fromkeys(_TIERED, _LATEST)
"""The timestamps that are looked up instead."""

_Item = ListOffsetsRequest.ListOffsetsPartition
_Result = ListOffsetsResponse.ListOffsetsPartitionResponse
_result = to_kafka(Offset, _Result)
_Topic = ListOffsetsResponse.ListOffsetsTopicResponse


async def handle(call: Call[ListOffsetsRequest]) -> ListOffsetsResponse:
    """Returns one result per partition."""
    named = [(topic.name, item) for topic in call.request.topics for item in topic.partitions]
    count = Counter((name, item.partition_index) for name, item in named)
    located = (_locate(call, name, item, once=count[name, item.partition_index] == 1) for name, item in named)
    found = await find_offsets(
        call,
        located,
        lambda item: (item.partition_index, _EQUIVALENT.get(item.timestamp, item.timestamp)),
        isolation_level=call.request.isolation_level,
        timeout_ms=call.request.timeout_ms,
    )
    results = (_found(call, item, offset) for (_, item), offset in zip(named, found, strict=True))
    return ListOffsetsResponse(topics=await by_topic(call, results, _Topic))


def _locate(call: Call, name: str, item: _Item, *, once: bool) -> Located[_Item] | Rejected[_Item]:
    try:
        call.rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
    except KafkaError as error:
        return Rejected(item, error)
    if not once:
        return Rejected(item, KafkaError(ErrorCode.INVALID_REQUEST, "The request names the partition twice."))
    if item.timestamp < 0 and call.version < _FIRST_VERSIONS.get(item.timestamp, call.version + 1):
        return Rejected(item, KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    return locate(
        call, AclOperation.DESCRIBE, item, item.partition_index, item.current_leader_epoch, name=name
    )


def _found(call: Call, item: _Item, found: Offset) -> _Result:
    if found.error_code or found.offset < 0 or item.timestamp in _TIERED:
        return _Result(partition_index=item.partition_index, error_code=found.error_code)
    return _result(found, partition_index=item.partition_index, leader_epoch=call.view.epoch)


_refuse = Refusal(ListOffsetsResponse, {"topics": "topics", "topics.partitions": "partitions"}, timestamp=-1)
API = Api(2, (1, 11), handle, _refuse)
