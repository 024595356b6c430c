"""Retries failed records of a group: their leaders append copies that no other group receives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final
from uuid import uuid4

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic, check_group_id
from sharebroker_server.gateway.admin.failed_records import read_journals
from sharebroker_server.gateway.admin.groups import check_group
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.validation import check_request_id
from sharebroker_server.rpc.errors import refusal
from sharebroker_server.security import audit

MOST_OFFSETS: Final = 1_000
"""The number of records of one request."""

Result = pb.RetryFailedRecordsResponse.Result
Selection = dict[int, set[int]]
"""Offsets by partition."""


async def retry_failed(
    gateway: Gateway, request: pb.RetryFailedRecordsRequest, deadline: Deadline
) -> pb.RetryFailedRecordsResponse:
    """Delivers failed records to their group again; the result of each, by partition and offset.

    Raises KafkaError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, GROUP_ID_NOT_FOUND, and those of the
    coordinators.
    """
    check_group_id(request.group_id)
    request_id = request.request_id or str(uuid4())
    check_request_id(request_id)
    topic = gateway.topic(request.topic)
    selected = _selected(request, topic)
    await check_group(gateway, request.group_id, deadline)
    unlisted: Mapping[int, Set[int]] = {}
    if not request.include_unlisted:
        unlisted = await _unlisted(gateway, request.group_id, topic.topic_id, selected, deadline)
    forwarded = leader.RetryRecordsRequest(
        group_id=request.group_id, request_id=request_id, validate_only=request.validate_only
    )
    for partition, offsets in selected.items():
        if listed := sorted(offsets - unlisted.get(partition, set())):
            forwarded.partitions.add(topic_id=topic.topic_id, partition=partition, offsets=listed)
    results = [*_refused(unlisted), *await _forward(gateway, request, forwarded, deadline)]
    results.sort(key=lambda result: (result.partition, result.offset))
    return pb.RetryFailedRecordsResponse(results=results)


def _selected(request: pb.RetryFailedRecordsRequest, topic: Topic) -> Selection:
    """Returns the requested records. Raises INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
    number = sum(len(part.offsets) for part in request.partitions)
    if not 0 < number <= MOST_OFFSETS:
        text = f"The request has {number} offsets; 1 to {MOST_OFFSETS} are allowed."
        raise invalid_field("partitions", text)
    selected: Selection = {}
    for part in request.partitions:
        if not 0 <= part.partition < topic.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Topic {topic.name} has partitions 0 to {topic.partitions - 1}, not {part.partition}.",
            )
        selected.setdefault(part.partition, set()).update(part.offsets)
    return selected


async def _unlisted(
    gateway: Gateway, group_id: str, topic_id: str, selected: Selection, deadline: Deadline
) -> Selection:
    """Returns the records that the journals of the group do not have. Raises KafkaError."""
    journals = await read_journals(gateway, group_id, topic_id, sorted(selected), deadline)
    entries = {
        number: [(each.first_offset, each.last_offset) for each in journals[number].records]
        for number in selected
    }
    return {
        number: {
            offset
            for offset in offsets
            if not any(first <= offset <= last for first, last in entries[number])
        }
        for number, offsets in selected.items()
    }


def _refused(unlisted: Mapping[int, Set[int]]) -> Iterable[Result]:
    for partition, offsets in unlisted.items():
        for offset in offsets:
            error = KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"The group's journal of failed records does not have offset {offset}.",
            )
            yield Result(partition=partition, offset=offset, copy_offset=-1, **refusal(error))


async def _forward(
    gateway: Gateway,
    request: pb.RetryFailedRecordsRequest,
    forwarded: leader.RetryRecordsRequest,
    deadline: Deadline,
) -> list[Result]:
    """Returns the results of the leaders, and logs what was changed. Raises KafkaError."""
    if not forwarded.partitions:
        return []
    send = gateway.leaders.forward(
        lambda stub: stub.RetryRecords, forwarded, leader.RetryRecordsResponse, deadline
    )
    if request.validate_only:
        return [result for part in (await send).partitions for result in _results(part, forwarded)]
    with audit.changing("RetryFailedRecords", "GROUP", [request.group_id]):
        response = await send
    results: list[Result] = []
    for part in response.partitions:
        found = list(_results(part, forwarded))
        copied = [result.offset for result in found if not result.error_code]
        failed = next((result.error_code for result in found if result.error_code), 0)
        if copied:
            details = {"topic": request.topic, "partition": part.partition, "offsets": copied}
            audit.change("RetryFailedRecords", "GROUP", request.group_id, 0, **details)
        if failed:
            audit.change("RetryFailedRecords", "GROUP", request.group_id, failed)
        results += found
    return results


def _results(
    part: leader.RetryRecordsResponse.Partition, forwarded: leader.RetryRecordsRequest
) -> Iterable[Result]:
    """Yields the result of each record of a partition; an error of the partition is that of all of them."""
    if part.error_code:
        error = refusal(KafkaError(ErrorCode(part.error_code), part.error_message))
        requested = (each.offsets for each in forwarded.partitions if each.partition == part.partition)
        for offset in next(requested):
            yield Result(partition=part.partition, offset=offset, copy_offset=-1, **error)
    for result in part.results:
        yield Result(
            partition=part.partition,
            offset=result.offset,
            error_code=result.error_code,
            error_message=result.error_message,
            copy_offset=-1 if result.error_code else result.copy_offset,
        )
