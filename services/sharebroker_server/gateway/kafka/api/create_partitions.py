"""CreatePartitions (37): adds partitions to a topic; replica assignments are checked and then ignored."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from sharebroker_protocol.cluster.v1 import cluster_pb2 as pb
from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.gateway.admin.topics import create_partitions
from sharebroker_server.gateway.kafka.call import Api, Call, Refusal
from sharebroker_server.gateway.kafka.catalog_changes import check_assignments, duplicate_check, each_item
from sharebroker_server.gateway.kafka.convert import to_proto
from sharebroker_server.kafka_wire.messages import CreatePartitionsRequest, CreatePartitionsResponse
from sharebroker_server.security.acl import AclOperation, AclResourceType

_Topic = CreatePartitionsRequest.CreatePartitionsTopic
_topic = to_proto(_Topic, pb.CreatePartitionsRequest.Topic)


async def handle(call: Call[CreatePartitionsRequest]) -> CreatePartitionsResponse:
    """Returns one result per topic."""
    topics, validate_only = call.request.topics, call.request.validate_only
    check = duplicate_check((topic.name for topic in topics), "topic name")

    def translate(topic: _Topic) -> pb.CreatePartitionsRequest.Topic:
        check(topic.name)
        call.rights.require(AclOperation.ALTER, AclResourceType.TOPIC, topic.name)
        _check_assignments(call, topic)
        existing = call.gateway.catalog.topic(topic.name)
        if existing is not None and not validate_only:
            call.mutate(max(topic.count - existing.partitions, 0), strict_from=3)
        return _topic(topic)

    async def send(
        added: list[pb.CreatePartitionsRequest.Topic],
    ) -> Iterable[pb.CreatePartitionsResponse.Topic]:
        request = pb.CreatePartitionsRequest(topics=added, validate_only=validate_only)
        deadline = call.deadline(call.request.timeout_ms)
        return (await create_partitions(call.gateway, request, deadline)).results

    item = partial(_refuse.item, "results")
    results = await each_item(call.gateway.turns, topics, translate, send, lambda topic, _: item(topic), item)
    return CreatePartitionsResponse(results=results)


def _check_assignments(call: Call, topic: _Topic) -> None:
    if topic.assignments is None:
        return
    added = topic.count - call.gateway.topic(topic.name).partitions
    if len(topic.assignments) != added > 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(topic.assignments)} "
            "assignment(s) were specified.",
        )
    check_assignments([one.broker_ids for one in topic.assignments], call.view.brokers)


_refuse = Refusal(CreatePartitionsResponse, {"results": "topics"})
API = Api(37, (0, 3), handle, _refuse)
