"""Asking the gateway for the logs of groups' state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_protocol.group_coordinator.v1 import group_coordinator_pb2 as groups
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_spark.client import Client
from sharebroker_spark.core.state_options import StateOptions
from sharebroker_spark.core.state_rows import Row, SharePartition, rows, unreadable

_SHARE: Final = "share"


def share_partitions(client: Client, options: StateOptions) -> list[SharePartition]:
    """Those that are asked for and have a state. Raises KafkaError, GROUP_ID_NOT_FOUND among others."""
    wanted = options.groups or _listed(client)
    asked = groups.DescribeShareGroupOffsetsRequest(
        groups=[
            groups.DescribeShareGroupOffsetsRequest.Group(group_id=group, all_topics=True) for group in wanted
        ]
    )
    answer = client.call(client.admin.DescribeShareGroupOffsets, asked)
    _check_known(client, options, [group.group_id for group in answer.groups if not group.topics])
    return sorted(_of_groups(answer.groups, options))


def read_state(client: Client, places: Iterable[SharePartition]) -> Iterator[Row]:
    """The rows of share-partitions. Each is of one moment: log and answer fit together. Raises KafkaError."""
    for place in places:
        request = state.InspectShareGroupStateRequest(
            group_id=place.group, topic_id=place.topic_id, partition=place.partition
        )
        try:
            stored = client.call(client.admin.InspectShareGroupState, request)
        except KafkaError as error:
            if error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            yield unreadable(place)
        else:
            yield from rows(place, stored.records, stored.live if stored.HasField("live") else None)


def _listed(client: Client) -> list[str]:
    request = groups.ListGroupsRequest(types_filter=[_SHARE])
    return [group.group_id for group in client.call(client.admin.ListGroups, request).groups]


def _check_known(client: Client, options: StateOptions, stateless: Iterable[str]) -> None:
    """Raises GROUP_ID_NOT_FOUND for a group that was named and is not there."""
    named = [group for group in stateless if group in options.groups]
    there = _listed(client) if named else ()
    for group in named:
        if group not in there:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"There is no share group '{group}' (option groups)."
            )


def _of_groups(
    answers: Iterable[groups.DescribeShareGroupOffsetsResponse.Group], options: StateOptions
) -> Iterator[SharePartition]:
    for group in answers:
        if group.error_code:
            # A group that is deleted between two calls is nobody's mistake, one that was named is.
            if ErrorCode(group.error_code) is ErrorCode.GROUP_ID_NOT_FOUND and not options.groups:
                continue
            raise KafkaError(ErrorCode(group.error_code), group.error_message)
        for topic in group.topics:
            if not options.topics or topic.topic_name in options.topics:
                for part in topic.partitions:
                    yield SharePartition(group.group_id, topic.topic_name, topic.topic_id, part.partition)
