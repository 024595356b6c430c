"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, with which consumers detect truncation."""

from __future__ import annotations

from typing import Final

from sharebroker_protocol.errors import KafkaError
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.offsets import Offset, find_offsets
from sharebroker_server.gateway.kafka.topics import Located, Rejected, by_topic, locate
from sharebroker_server.kafka_wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_LATEST: Final = -1
_NONE: Final = -1

_Item = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
_Result = OffsetForLeaderEpochResponse.EpochEndOffset
_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


async def handle(call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    """Returns the log end offset for every epoch, since logs are never truncated at their end."""
    named = [(topic.topic, item) for topic in call.request.topics for item in topic.partitions]
    located = (_locate(call, name, item) for name, item in named)
    ends = await find_offsets(call, located, lambda item: (item.partition, _LATEST))
    results = (_result(item, end) for (_, item), end in zip(named, ends, strict=True))
    return OffsetForLeaderEpochResponse(topics=await by_topic(call, results, _Topic))


def _locate(call: Call, name: str, item: _Item) -> Located[_Item] | Rejected[_Item]:
    """Looks up a partition. As in Kafka, CLUSTER_ACTION is sufficient, with which followers ask."""
    if not call.rights.allows_on_cluster(AclOperation.CLUSTER_ACTION):
        try:
            call.rights.require(AclOperation.DESCRIBE, AclResourceType.TOPIC, name)
        except KafkaError as error:
            return Rejected(item, error)
    return locate(call, None, item, item.partition, item.current_leader_epoch, name=name)


def _result(item: _Item, end: Offset) -> _Result:
    if end.error_code or item.leader_epoch == _NONE:
        return _Result(partition=item.partition, error_code=end.error_code)
    return _Result(partition=item.partition, leader_epoch=item.leader_epoch, end_offset=end.offset)


_refuse = Refusal(
    OffsetForLeaderEpochResponse, {"topics": "topics", "topics.partitions": "partitions"}, leader_epoch=_NONE
)
API = Api(23, (2, 4), handle, _refuse)
