"""Lists the failed records of a group in a topic, page by page, from the journals of its partitions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.errors import ErrorCode, KafkaError, invalid_field
from sharebroker_protocol.gateway.v1 import admin_pb2 as pb
from sharebroker_protocol.share_coordinator.v1 import share_coordinator_pb2 as state
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic, check_group_id
from sharebroker_server.gateway.admin.partitions import inspect_records
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.leases.names import Shard

DEFAULT_PAGE: Final = 100
LONGEST_PAGE: Final = 1000
"""The most entries of a page."""

PARTITIONS_AT_ONCE: Final = 50
"""Partitions whose journals are read together."""

RETRIED_TIMEOUT: Final = 5.0
"""Seconds in which the leaders must return what was retried; the caller may list the records without it."""

Journal = state.ReadFailedRecordsResponse.PartitionData


class _Position(NamedTuple):
    """The first entry of a page: of this partition, and not before this offset."""

    partition: int = 0
    offset: int = 0

    @property
    def token(self) -> str:
        return f"{self.partition}:{self.offset}"


async def list_failed(
    gateway: Gateway, request: pb.ListFailedRecordsRequest, deadline: Deadline
) -> pb.ListFailedRecordsResponse:
    """Returns a page of failed records by partition and offset.

    Raises KafkaError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, and that of the share coordinator.
    """
    check_group_id(request.group_id)
    if not 0 <= request.page_size <= LONGEST_PAGE:
        raise invalid_field("page_size", f"page_size is {request.page_size}; 0 to {LONGEST_PAGE} is allowed.")
    start, size = _parsed(request.page_token), request.page_size or DEFAULT_PAGE
    topic = gateway.topic(request.topic)
    page = await _page(gateway, request.group_id, topic, start, size, deadline)
    if request.include_retried and page.entries:
        await _add_retried(gateway, request.group_id, topic.topic_id, page, deadline)
    return page


async def _page(
    gateway: Gateway, group_id: str, topic: Topic, start: _Position, size: int, deadline: Deadline
) -> pb.ListFailedRecordsResponse:
    page = pb.ListFailedRecordsResponse()
    for first in range(start.partition, topic.partitions, PARTITIONS_AT_ONCE):
        numbers = range(first, min(first + PARTITIONS_AT_ONCE, topic.partitions))
        journals = await read_journals(gateway, group_id, topic.topic_id, numbers, deadline)
        for number in numbers:
            following = _add(page, journals[number], start, size)
            if following is not None:
                page.next_page_token = following.token
                return page
    return page


def _add(
    page: pb.ListFailedRecordsResponse, journal: Journal, start: _Position, size: int
) -> _Position | None:
    """Adds a partition's entries from `start` on; returns the position of the first that has no room."""
    from_offset = start.offset if journal.partition == start.partition else 0
    for entry in sorted(journal.records, key=attrgetter("first_offset")):
        if entry.first_offset < from_offset:
            continue
        if len(page.entries) == size:
            return _Position(journal.partition, entry.first_offset)
        page.entries.add(
            partition=journal.partition,
            first_offset=entry.first_offset,
            last_offset=entry.last_offset,
            disposition=entry.disposition,
            delivery_count=entry.delivery_count,
            time_ms=entry.time_ms,
            member_id=entry.member_id,
            reason=entry.reason,
        )
    if journal.dropped:
        page.dropped.add(partition=journal.partition, records=journal.dropped)
    return None


async def _add_retried(
    gateway: Gateway, group_id: str, topic_id: str, page: pb.ListFailedRecordsResponse, deadline: Deadline
) -> None:
    """Adds the copies that the leaders have of the listed records. Raises KafkaError, soon if none leads."""
    request = leader.InspectRecordsRequest(group_id=group_id)
    for partition in sorted({entry.partition for entry in page.entries}):
        request.partitions.add(topic_id=topic_id, partition=partition, from_offset=-1)
    copied = dict[int, Sequence[leader.InspectRecordsResponse.CopiedRange]]()
    soon = Deadline(min(deadline.remaining(), RETRIED_TIMEOUT))
    for part in (await inspect_records(gateway, request, soon)).partitions:
        if part.error_code:
            raise KafkaError(ErrorCode(part.error_code), part.error_message)
        copied[part.partition] = part.copied
    for entry in page.entries:
        for run in copied[entry.partition]:
            first, last = max(run.first_offset, entry.first_offset), min(run.last_offset, entry.last_offset)
            if first <= last:
                copy = run.copy_offset + first - run.first_offset
                entry.retried.add(first_offset=first, last_offset=last, copy_offset=copy)


async def read_journals(
    gateway: Gateway, group_id: str, topic_id: str, partitions: Sequence[int], deadline: Deadline
) -> dict[int, Journal]:
    """Returns the journals of partitions, with one request to each shard. Raises KafkaError."""
    by_shard = defaultdict[Shard, list[int]](list)
    for partition in partitions:
        by_shard[gateway.router.share_shard(group_id, topic_id, partition)].append(partition)

    async def read(shard: Shard, numbers: list[int]) -> Sequence[Journal]:
        request = state.ReadFailedRecordsRequest(group_id=group_id)
        request.topics.add(topic_id=topic_id, partitions=numbers)
        response = await gateway.coordinators.of_share_state(
            shard, lambda stub, left: stub.ReadFailedRecords(request, timeout=left), deadline
        )
        return [journal for topic in response.results for journal in topic.partitions]

    found = await asyncio.gather(*[read(shard, numbers) for shard, numbers in by_shard.items()])
    journals = {journal.partition: journal for part in found for journal in part}
    for journal in journals.values():
        if journal.error_code:
            raise KafkaError(ErrorCode(journal.error_code), journal.error_message)
    return journals


def _parsed(token: str) -> _Position:
    if not token:
        return _Position()
    partition, colon, offset = token.partition(":")
    if not (colon and partition.isdecimal() and offset.isdecimal() and token.isascii() and len(token) <= 40):
        raise invalid_field("page_token", "page_token is not one of an earlier response.")
    return _Position(int(partition), int(offset))
