"""OffsetForLeaderEpoch (23): the end offset of a leader epoch, with which consumers detect truncation."""

from __future__ import annotations

from typing import Final

from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.topics import Offset, by_topic, find_offsets, locate
from sharebroker_server.kafka_wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

_LATEST: Final = -1
_NONE: Final = -1

_Item = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
_Result = OffsetForLeaderEpochResponse.EpochEndOffset
_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


async def handle(call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    """Returns the log end offset for every epoch, since logs are never truncated at their end."""
    named = [(topic.topic, item) for topic in call.request.topics for item in topic.partitions]
    located = [
        locate(call, item, item.partition, item.current_leader_epoch, name=name) for name, item in named
    ]
    ends = await find_offsets(call, located, lambda item: (item.partition, _LATEST))
    results = (_result(item, end) for (_, item), end in zip(named, ends, strict=True))
    return OffsetForLeaderEpochResponse(topics=by_topic(call.request.topics, results, _Topic))


def _result(item: _Item, end: Offset) -> _Result:
    if end.error_code or item.leader_epoch == _NONE:
        return _Result(partition=item.partition, error_code=end.error_code)
    return _Result(partition=item.partition, leader_epoch=item.leader_epoch, end_offset=end.offset)


_refuse = Refusal(
    OffsetForLeaderEpochResponse, {"topics": "topics", "topics.partitions": "partitions"}, leader_epoch=_NONE
)
API = Api(23, (2, 4), handle, _refuse)
