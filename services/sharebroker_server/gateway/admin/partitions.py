"""Requests about partitions, forwarded to their leaders, and the persisted state of a share-partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.delivery.v1.delivery_pb2 import TopicPartition
from sharebroker_protocol.errors import invalid_field
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.security import audit

Producers = leader.DescribeProducersResponse.Partition


async def list_offsets(
    gateway: Gateway, request: leader.ListOffsetsRequest, deadline: Deadline
) -> leader.ListOffsetsResponse:
    """Returns offsets by timestamp, from each partition's leader."""
    return await gateway.leaders.forward(
        lambda stub: stub.ListOffsets, request, leader.ListOffsetsResponse, deadline
    )


async def delete_records(
    gateway: Gateway, request: leader.DeleteRecordsRequest, deadline: Deadline
) -> leader.DeleteRecordsResponse:
    """Moves log start offsets, at each partition's leader."""
    before = {(part.topic_id, part.partition): part.offset for part in request.partitions}
    with audit.changing("DeleteRecords", "TOPIC", (_named(gateway, *key) for key in before)):
        response = await gateway.leaders.forward(
            lambda stub: stub.DeleteRecords, request, leader.DeleteRecordsResponse, deadline
        )
    for part in response.partitions:
        key = part.topic_id, part.partition
        details = {"before_offset": before.get(key)}
        audit.change("DeleteRecords", "TOPIC", _named(gateway, *key), part.error_code, **details)
    return response


async def recall_records(
    gateway: Gateway, request: leader.RecallRecordsRequest, deadline: Deadline
) -> leader.RecallRecordsResponse:
    """Recalls scheduled records, at each partition's leader."""
    offsets = {(part.topic_id, part.partition): part.offset for part in request.partitions}
    if len(offsets) < len(request.partitions):
        raise invalid_field("partitions", "A partition occurs twice; send a request for each of its records.")
    with audit.changing("RecallRecords", "TOPIC", (_named(gateway, *key) for key in offsets)):
        response = await gateway.leaders.forward(
            lambda stub: stub.RecallRecords, request, leader.RecallRecordsResponse, deadline
        )
    for part in response.partitions:
        key = part.topic_id, part.partition
        details = {"offset": offsets.get(key)}
        audit.change("RecallRecords", "TOPIC", _named(gateway, *key), part.error_code, **details)
    return response


def _named(gateway: Gateway, topic_id: str, partition: int) -> str:
    """Returns a partition as `orders-0`."""
    topic = gateway.catalog.topic_by_id(topic_id)
    return f"{topic.name if topic else topic_id}-{partition}"


async def describe_logs(
    gateway: Gateway, partitions: Sequence[TopicPartition], deadline: Deadline
) -> Sequence[leader.DescribeLogsResponse.Partition]:
    """Returns the sizes of logs, from each partition's leader."""
    request = leader.DescribeLogsRequest(partitions=partitions)
    response = await gateway.leaders.forward(
        lambda stub: stub.DescribeLogs, request, leader.DescribeLogsResponse, deadline
    )
    return response.partitions


async def describe_requested_logs(
    gateway: Gateway, request: leader.DescribeLogsRequest, deadline: Deadline
) -> leader.DescribeLogsResponse:
    """Returns the sizes of logs, from each partition's leader."""
    return leader.DescribeLogsResponse(partitions=await describe_logs(gateway, request.partitions, deadline))


async def inspect_records(
    gateway: Gateway, request: leader.InspectRecordsRequest, deadline: Deadline
) -> leader.InspectRecordsResponse:
    """Returns the holders of records and missing offsets, from each partition's leader."""
    return await gateway.leaders.forward(
        lambda stub: stub.InspectRecords, request, leader.InspectRecordsResponse, deadline
    )


async def inspect_state(
    gateway: Gateway, request: state.InspectShareGroupStateRequest, deadline: Deadline
) -> state.InspectShareGroupStateResponse:
    """Returns the persisted state of a share-partition. Raises KafkaError."""
    shard = gateway.router.share_shard(request.group_id, request.topic_id, request.partition)
    return await gateway.coordinators.of_share_state(
        shard, lambda stub, left: stub.InspectShareGroupState(request, timeout=left), deadline
    )


async def describe_producers(
    gateway: Gateway, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Sequence[Producers]:
    """Returns the active producers of each partition, in order (Kafka: DescribeProducers)."""
    request = leader.DescribeProducersRequest(partitions=partitions)
    response = await gateway.leaders.forward(
        lambda stub: stub.DescribeProducers, request, leader.DescribeProducersResponse, deadline
    )
    return response.partitions
