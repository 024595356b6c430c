"""Reads the logs of share-group state from the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_spark.client import GatewayClient
from sharebroker_spark.core.options import StateOptions
from sharebroker_spark.core.state_rows import Row, StateRowKey, rows, unreadable

_SHARE: Final = "share"


def share_partitions(client: GatewayClient, options: StateOptions) -> list[StateRowKey]:
    """Returns the requested share-partitions with state. Raises KafkaError, such as GROUP_ID_NOT_FOUND."""
    group_ids = options.groups or _listed(client)
    request = groups.DescribeShareGroupOffsetsRequest(
        groups=[
            groups.DescribeShareGroupOffsetsRequest.Group(group_id=group, all_topics=True)
            for group in group_ids
        ]
    )
    response = client.call(client.admin.DescribeShareGroupOffsets, request)
    _check_known(client, options, [group.group_id for group in response.groups if not group.topics])
    return sorted(_of_groups(response.groups, options))


def read_state(client: GatewayClient, partition_list: Iterable[StateRowKey]) -> Iterator[Row]:
    """Yields the rows of share-partitions; log and memory are of the same moment. Raises KafkaError."""
    for share_partition in partition_list:
        request = state.InspectShareGroupStateRequest(
            group_id=share_partition.group,
            topic_id=share_partition.topic_id,
            partition=share_partition.partition,
        )
        try:
            stored = client.call(client.admin.InspectShareGroupState, request)
        except KafkaError as error:
            if error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            yield unreadable(share_partition)
        else:
            yield from rows(share_partition, stored.records, stored.live if stored.HasField("live") else None)


def _listed(client: GatewayClient) -> list[str]:
    request = groups.ListGroupsRequest(types_filter=[_SHARE])
    return [group.group_id for group in client.call(client.admin.ListGroups, request).groups]


def _check_known(client: GatewayClient, options: StateOptions, stateless: Iterable[str]) -> None:
    """Raises GROUP_ID_NOT_FOUND for a requested group that does not exist."""
    requested = [group for group in stateless if group in options.groups]
    existing = _listed(client) if requested else ()
    for group in requested:
        if group not in existing:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Share group '{group}' does not exist (option groups)."
            )


def _of_groups(
    results: Iterable[groups.DescribeShareGroupOffsetsResponse.Group], options: StateOptions
) -> Iterator[StateRowKey]:
    for group in results:
        if group.error_code:
            # A group deleted between two calls is an error only if it was requested by name.
            if ErrorCode(group.error_code) is ErrorCode.GROUP_ID_NOT_FOUND and not options.groups:
                continue
            raise KafkaError(ErrorCode(group.error_code), group.error_message)
        for topic in group.topics:
            if not options.topics or topic.topic_name in options.topics:
                for partition in topic.partitions:
                    yield StateRowKey(group.group_id, topic.topic_name, topic.topic_id, partition.partition)
