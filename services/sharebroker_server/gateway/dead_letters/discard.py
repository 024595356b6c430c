"""Discards dead letters: deletes the oldest records of each partition as long as the filter selects them.

The dead letter topic is an ordinary one, whose records are deleted from the start only (decision 0106).
"""

from __future__ import annotations

from contextlib import aclosing

from sharebroker_protocol.clock import Deadline
from sharebroker_protocol.gateway.v1 import dead_letters_pb2 as pb
from sharebroker_protocol.share_partition_leader.v1 import share_partition_leader_pb2 as leader
from sharebroker_server.catalog.topics import Topic
from sharebroker_server.gateway.admin.partitions import delete_records
from sharebroker_server.gateway.context import Gateway
from sharebroker_server.gateway.core.dead_letters import LetterFilter, ScanPosition
from sharebroker_server.gateway.dead_letters.listing import filter_of, read_letter
from sharebroker_server.gateway.dead_letters.reading import LetterScan, position_of

Deleted = pb.DiscardDeadLettersResponse.Partition


async def discard_letters(
    gateway: Gateway, request: pb.DiscardDeadLettersRequest, deadline: Deadline
) -> pb.DiscardDeadLettersResponse:
    """Deletes the next letters; returns up to which offset of each partition. Raises KafkaError.

    Records that are no letters are kept, and so is all that is behind them.
    """
    topic = gateway.topic(request.topic)
    position = position_of(topic, request.page_token)
    if not request.validate_only:  # records before a position may be others, unless they were deleted
        position = position._replace(offset=0)
    scan = LetterScan(gateway, topic, position, deadline)
    found, stopped = await _prefixes(scan, filter_of(request.filter))
    response = pb.DiscardDeadLettersResponse(partitions=found, scanned=scan.scanned)
    if stopped is None:
        response.next_page_token = scan.token
    elif stopped + 1 < topic.partitions:
        response.next_page_token = ScanPosition(stopped + 1).token
    if not request.validate_only and found:
        await _delete(gateway, topic, response, deadline)
    return response


async def _prefixes(scan: LetterScan, conditions: LetterFilter) -> tuple[list[Deleted], int | None]:
    """Returns the selected records before the first other one, and the partition of that one."""
    found: dict[int, Deleted] = {}
    async with aclosing(scan.records()) as records:
        async for record in records:
            letter = read_letter(record)
            if letter is None or not conditions.selects(letter):
                return list(found.values()), record.partition
            part = found.setdefault(record.partition, Deleted(partition=record.partition))
            part.before_offset = record.offset + 1
            part.letters += 1
    return list(found.values()), None


async def _delete(
    gateway: Gateway, topic: Topic, response: pb.DiscardDeadLettersResponse, deadline: Deadline
) -> None:
    """Deletes what the response names, and adds the errors."""
    request = leader.DeleteRecordsRequest()
    for part in response.partitions:
        request.partitions.add(topic_id=topic.topic_id, partition=part.partition, offset=part.before_offset)
    deleted = await delete_records(gateway, request, deadline)
    for part, result in zip(response.partitions, deleted.partitions, strict=True):
        part.error_code, part.error_message = result.error_code, result.error_message
