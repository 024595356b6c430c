"""OffsetDelete (47): deletes committed offsets of a consumer group without members."""

from __future__ import annotations

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.group_coordinator.v1 import consumer_groups_pb2 as pb
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.groups import call_coordinator, known_partitions
from sharebroker_server.gateway.kafka.topics import PORTION, by_topic
from sharebroker_server.kafka_wire.messages import OffsetDeleteRequest, OffsetDeleteResponse
from sharebroker_server.security import audit
from sharebroker_server.security.acl import AclOperation, AclResourceType

_Partition = OffsetDeleteResponse.OffsetDeleteResponsePartition
_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic


async def handle(call: Call[OffsetDeleteRequest]) -> OffsetDeleteResponse:
    """Returns one result per partition; a partition without an offset is not an error."""
    call.rights.require(AclOperation.DELETE, AclResourceType.GROUP, call.request.group_id)
    deadline = call.deadline()
    results = []
    async for portion in call.gateway.turns.portions(known_partitions(call), PORTION):
        request = pb.OffsetDeleteRequest(group_id=call.request.group_id)
        for partition, topic_id, error in portion:
            results.append(_Partition(partition_index=partition.partition_index, error_code=error))
            if not error:
                request.partitions.add(topic_id=topic_id, partition=partition.partition_index)
        await _delete(call, request, deadline)
    if not results:
        await _delete(call, pb.OffsetDeleteRequest(group_id=call.request.group_id), deadline)
    return OffsetDeleteResponse(topics=await by_topic(call, results, _Topic))


async def _delete(
    call: Call[OffsetDeleteRequest], request: pb.OffsetDeleteRequest, deadline: Deadline
) -> None:
    """Deletes the offsets of some partitions; without any the coordinator checks the group."""
    with audit.changing("OffsetDelete", "GROUP", [request.group_id]):
        await call_coordinator(call, lambda stub: stub.OffsetDelete, request, deadline=deadline)
    for partition in request.partitions:
        topic_id, index = partition.topic_id, partition.partition
        audit.change("OffsetDelete", "GROUP", request.group_id, topic_id=topic_id, partition=index)


API = Api(47, (0, 0), handle, Refusal(OffsetDeleteResponse))
